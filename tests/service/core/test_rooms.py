"""The rooms of the service without HTTP: what they may know."""

import json
import subprocess
import sys

CODE = """
import importlib, json, pkgutil, sys
from syndicated.service import bandits, commit, core
for room in (bandits, commit, core):
    for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def test_they_load_no_web_framework_and_no_room_that_has_one() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {f"syndicated.service.{name}" for name in ("bandits.state", "commit.batch", "core.admin")} <= loaded
    assert not {"starlette", "jinja2", "uvicorn", "httpx", "prometheus_client"} & loaded
    assert not [name for name in loaded if name.startswith(("syndicated.service.http", "syndicated.service.dashboard"))]


def test_the_front_door_of_the_service_is_light() -> None:
    code = "import json, sys, syndicated.service; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"starlette", "msgspec", "syndicated.service.core.service"} & set(json.loads(done.stdout))
