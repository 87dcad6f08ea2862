"""What becomes of a stream: log, event, file."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from podium.log.events import MAX_PAYLOAD_BYTES, encode_payload
from podium.log.redaction import Redactor
from podium.runtime.rundir import NewFile
from podium.runtime.tasks.masking import masked
from podium.runtime.tasks.order import completed
from podium.runtime.tasks.output import Output, Pipe
from podium.runtime.tasks.truncate import fitted

SECRET = Redactor(["topsecret", "123456789"])


def written(log: Path, *chunks: bytes, **options: Any) -> Output:
    output = Output(log, **{"keep": 10, "redactor": None, **options})
    for chunk in chunks:
        output.write(chunk)
    output.close()
    return output


def test_the_log_gets_everything_and_the_event_the_beginning(tmp_path: Path) -> None:
    output = written(tmp_path / "log", b"0123456", b"789abcdef")
    assert (tmp_path / "log").read_bytes() == b"0123456789abcdef"
    assert (output.text(10), output.size, output.tail_text()) == ("0123456789", 16, "0123456789abcdef")


def test_a_silent_stream_has_no_log(tmp_path: Path) -> None:
    assert written(tmp_path / "log").size == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.rule("D37")
def test_a_character_that_was_cut_is_left_out_and_a_wrong_one_replaced(tmp_path: Path) -> None:
    assert written(tmp_path / "log", "ééééééé".encode(), keep=5).text(5) == "éé"
    assert written(tmp_path / "log", b"\xffab\xc3").text(10) == "�ab�"
    # Of two thousand bytes, the first is the second half of a character.
    assert written(tmp_path / "log", b"x" + "é".encode() * 2000 + b"y").tail_text() == "é" * 999 + "y"


@pytest.mark.rule("D35")
def test_no_secret_gets_through_and_the_file_tells(tmp_path: Path) -> None:
    whole = NewFile(tmp_path / "deep" / "file")
    output = written(tmp_path / "log", b"a tops", b"ecret b", keep=100, redactor=SECRET, whole=whole)
    whole.commit()
    assert (tmp_path / "log").read_bytes() == b"a *** b"
    assert (output.text(100), output.tail_text(), output.size) == ("a *** b", "a *** b", 7)
    assert output.held_a_secret
    assert (tmp_path / "deep" / "file").read_bytes() == b"a topsecret b"
    assert not written(tmp_path / "log", b"a tops", redactor=SECRET).held_a_secret


def test_what_comes_after_the_end_is_only_logged(tmp_path: Path) -> None:
    whole = NewFile(tmp_path / "file")
    output = Output(tmp_path / "log", keep=100, redactor=SECRET, whole=whole)
    output.write(b"before tops")
    output.end()
    output.write(b"after topsecret")
    output.close()
    whole.commit()
    assert output.text(100) == "before tops"
    assert (tmp_path / "file").read_bytes() == b"before tops"
    assert (tmp_path / "log").read_bytes() == b"before topsafter ***"


def test_a_pipe_is_read_to_its_end_and_not_beyond_its_size(tmp_path: Path) -> None:
    async def carry() -> int:
        pipe = Pipe(Output(tmp_path / "log", keep=0, redactor=None))
        os.set_blocking(pipe.writer, False)
        sent = 0
        try:
            while True:
                sent += os.write(pipe.writer, b"x" * 4096)
        except BlockingIOError:
            pass
        # Nobody has read yet, and somebody else holds the other end.
        pipe.end()
        assert pipe.is_open
        size = pipe.output.size
        pipe.close()
        assert size == sent
        return len(asyncio.all_tasks())

    assert asyncio.run(carry()) == 1


@pytest.mark.rule("D35")
def test_data_is_masked_down_to_its_keys_and_numbers() -> None:
    data = {"a": ["x topsecret", {"topsecret": 123456789, "n": 1, "b": True, "none": None, "f": 1.5}]}
    assert masked(data, SECRET) == {"a": ["x ***", {"***": "***", "n": 1, "b": True, "none": None, "f": 1.5}]}


@pytest.mark.rule("D36")
def test_an_output_that_takes_too_much_json_is_cut_further() -> None:
    result = fitted(completed(output="\0" * 100_000))
    assert result.payload["truncated"] is True
    assert result.payload["outputBytes"] == 100_000
    assert len(encode_payload(result.payload)) < MAX_PAYLOAD_BYTES
    assert len(result.payload["output"]) > 30_000
    plain = completed(output="x" * 100_000)
    assert "truncated" not in fitted(plain).payload


def test_a_result_that_cannot_be_written_as_json_is_a_failure() -> None:
    result = fitted(completed(output="", json={"a": "\ud800"}))
    assert result.payload["error"]["code"] == "NOT_JSON"
