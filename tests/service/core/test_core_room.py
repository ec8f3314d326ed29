"""The room of the service's core: what it may know."""

import json
import subprocess
import sys

CODE = """
import importlib, json, pkgutil, sys
import syndicated.service.core as core
for module in pkgutil.iter_modules(core.__path__, core.__name__ + "."):
    importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def test_the_core_loads_no_web_framework_and_no_other_room_of_the_service() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "syndicated.service.core.group_commit" in loaded
    assert not {"starlette", "jinja2", "uvicorn", "httpx", "prometheus_client"} & loaded
    assert not [name for name in loaded if name.startswith(("syndicated.service.http", "syndicated.service.dashboard"))]


def test_the_front_door_of_the_service_is_light() -> None:
    code = "import json, sys, syndicated.service; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"starlette", "msgspec", "syndicated.service.core.service"} & set(json.loads(done.stdout))
