"""A process that has imported everything and forks services on request: a start costs milliseconds, a kill is real.

Each line on standard input is JSON: the arguments of the command line, the environment, and a limit on the size of
files; the answer is the number of the process.
"""

import json
import os
import resource
import signal
import sys

from syndicated.cli import main
from syndicated.service.core import decisions  # noqa: F401
from syndicated.service.http import app  # noqa: F401
from syndicated.store import postgres  # noqa: F401


def nurse() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        wish = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ |= wish["environment"]
            out = os.open(wish["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if wish["largest"]:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (wish["largest"], wish["largest"]))
            os._exit(main(wish["arguments"]))
        print(pid, flush=True)


if __name__ == "__main__":
    nurse()
