"""The model hub's address, and whether it answers: asked as its own client asks, by the proxies of the environment."""

import os
import urllib.error
import urllib.request


def hub_url() -> str:
    """Where models and data are looked for: HF_ENDPOINT, or the public hub."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def hub_failure(timeout_s: float) -> str | None:
    """Why the hub does not answer within `timeout_s` seconds; None where it does, whatever it says."""
    client = urllib.request.build_opener()  # by the proxies of now: `urlopen` keeps those of its first call
    try:
        with client.open(urllib.request.Request(hub_url(), method="HEAD"), timeout=timeout_s):
            return None
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
