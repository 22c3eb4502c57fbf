"""The workflow's steps by hand: `python -m tests.campaigns.gate.workflow BASE SUMMARY`.

Runs the script of every step that checks something, as the runner would (bash -e, in the checkout), with BASE for the
pull request's base and SUMMARY for the job's summary. Actions and the installation are the runner's own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]


def main(base: str, summary: Path) -> int:
    """Returns how many steps failed."""
    content: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "regression.yml").read_text())
    ((_, job),) = content["jobs"].items()
    environment = {key: str(value) for key, value in job["env"].items()} | {"BASE": base}
    failed = 0
    for step in job["steps"]:
        if "bench check" not in step.get("run", ""):
            print(f"--- skipped: {step.get('name') or step['uses']}")
            continue
        print(f"--- {step['name']}", flush=True)
        words = os.environ | environment | {"GITHUB_STEP_SUMMARY": str(summary.resolve())}
        code = subprocess.call(["bash", "-e", "-c", step["run"]], cwd=ROOT, env=words)
        print(f"--- {step['name']}: exit code {code}", flush=True)
        failed += code != 0
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
