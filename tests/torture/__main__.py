"""`python -m tests.torture --plans 10000 --seed 0`: many random runs, in all processors; names the seeds that fail."""

import argparse
import sys
import time
from multiprocessing import get_context

from tests.torture.running import Batch, missing_features, run_batch, shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--plans", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    started = time.monotonic()
    whole = Batch()
    seeds = range(arguments.seed, arguments.seed + arguments.plans)
    parts = [seeds[at : at + 100] for at in range(0, len(seeds), 100)]
    with get_context("spawn").Pool(arguments.workers) as pool:
        for batch in pool.imap_unordered(run_batch, parts):
            whole.add(batch)
    seconds = time.monotonic() - started
    print(f"{whole.runs:,} runs, {whole.events:,} events, {seconds:.0f} s, {whole.runs / seconds:.0f} runs/s")
    print(f"compared with the interpreter: {whole.done['compared']:,}")
    print("done:", ", ".join(f"{name} {count:,}" for name, count in sorted(whole.done.items())))
    missing = missing_features(whole)
    if missing:
        print("too rare:", ", ".join(missing))
    for seed, plain, told in sorted(whole.failures)[:5]:
        print(f"\nseed {seed}{' plain' if plain else ''}: {told}")
        print(shrink(seed, plain=plain))
    if whole.failures:
        print(f"\n{len(whole.failures)} runs failed")
    return 1 if whole.failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
