"""A process that has loaded everything and forks services on request: a start costs milliseconds, a kill is real.

Each line on standard input is JSON: the arguments of the command line, the environment, and a limit on the size of
files; the answer is the number of the process, and the package that it has imported.

With `--on-demand` no kernel is loaded before it is called: those of another version are in no cache, and a minute would
go by until all are compiled.
"""

import json
import os
import resource
import signal
import sys

import syndicated.service as package
from syndicated._compiled import load_all
from syndicated.cli import main, serve  # noqa: F401
from syndicated.service.core import service  # noqa: F401
from syndicated.service.dashboard import handlers  # noqa: F401
from syndicated.service.http import app, server  # noqa: F401
from syndicated.store import _postgres  # noqa: F401


def serve_forks() -> None:
    if "--on-demand" in sys.argv:
        vars(package)["load_all"] = lambda: None
    else:
        load_all()  # or every fork would load the kernels for itself
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ |= order["environment"]
            out = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if order["max_file_bytes"]:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (order["max_file_bytes"], order["max_file_bytes"]))
            os._exit(main(order["arguments"]))
        print(pid, package.__file__, flush=True)


if __name__ == "__main__":
    serve_forks()
