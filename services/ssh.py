"""OpenSSH: an sshd that lets the current user in, with a key made for it.

    with ssh.start() as server:
        subprocess.run(["ssh", "-F", server.config, "podium-test", "true"])

It runs as the current user on a free loopback port, with a host key of its own. If it is missing and the tests run as
root under CI, Debian's package is installed.
"""

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path
from typing import ClassVar, Final

from services import debian, supervised
from services.missing import ServiceMissing
from services.server import Server

NAME: Final = "ssh"
HOW_TO_INSTALL: Final = "apt-get install openssh-server"
# Where sshd looks for it when it is started by root.
_PRIVILEGE_SEPARATION: Final = Path("/run/sshd")
_PACKAGES: Final = ("openssh-client", "openssh-server")


class SshServer(Server):
    name: ClassVar[str] = NAME
    title: ClassVar[str] = "sshd"
    given: ClassVar[str] = ""
    seconds_to_answer: ClassVar[float] = 60

    def __init__(self, port: int, process: supervised.Supervised) -> None:
        super().__init__(f"127.0.0.1:{port}", process)
        self.port = port
        self.user = pwd.getpwuid(os.getuid()).pw_name
        folder = process.folder
        self.identity_file = folder / "identity"
        self.known_hosts = folder / "known_hosts"
        # For the client: who this server is, and nothing of the user's own configuration.
        self.config = folder / "client_config"

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


def start() -> SshServer:
    program, folder = find(), supervised.make_folder(NAME)
    port = supervised.free_port()
    for name in ("host_key", "identity"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "identity.pub", folder / "authorized_keys")
    (folder / "sshd_config").write_text(_server_config(folder, port))
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (folder / "client_config").write_text(_client_config(folder, port))
    if os.getuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    command = [str(program), "-D", "-e", "-f", str(folder / "sshd_config")]
    server = SshServer(port, supervised.start(folder, command, stop_signal="SIGTERM"))
    try:
        if not server.is_ready():
            raise RuntimeError(f"sshd ended at its start:\n{server.own.log()}")
    except BaseException:
        server.stop()
        raise
    return server


def _server_config(folder: Path, port: int) -> str:
    return f"""\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
"""


def _client_config(folder: Path, port: int) -> str:
    return f"""\
Host podium-test
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/identity
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


def find() -> Path:
    """The program, which has to be called by its absolute path. Raises `ServiceMissing`."""
    if not _is_installed():
        debian.install(_PACKAGES, _is_installed)
    found = _found()
    if shutil.which("ssh") is None or found is None:
        raise ServiceMissing(NAME, f"not installed; {HOW_TO_INSTALL}")
    return found


def _is_installed() -> bool:
    return shutil.which("ssh") is not None and _found() is not None


def _found() -> Path | None:
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found is not None else None


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    program = find()
    shown = subprocess.run([str(program), "-V"], capture_output=True, text=True, check=False).stderr
    return f"{shown.split(',')[0].strip()} in {program.parent}"
