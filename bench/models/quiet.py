"""The libraries' own chatter."""

import os


def quieten() -> None:
    """Keep the libraries' own progress bars and notices out of a run's output."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else deepspeed warns of it wherever it is installed
    from datasets.utils import logging as datasets_logging  # type: ignore[import-untyped]
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    datasets_logging.disable_progress_bar()
