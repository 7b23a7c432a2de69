"""What every script here shares: replies as JSON lines on standard output, and the timing of repeated work."""

import importlib.metadata
import json
import time


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def progress(text):
    print(json.dumps({"progress": text}), flush=True)


def reply(who, variant="", **fields):
    """One measurement. Fields that do not apply are left out."""
    print(json.dumps({"who": who, "variant": variant, **fields}), flush=True)


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
