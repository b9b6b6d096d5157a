"""verdit: recording of cases from torch, and reading of what the verdit program writes.

Nothing here imports torch until a function needs it: `import verdit` works with the standard library alone.
"""

__version__ = "0.1.0"
__all__ = ["__version__", "record"]


def record(*args, **kwargs):
    """Record a case; see verdit.recorder.record. Needs torch, numpy and safetensors."""
    from .recorder import record as record_case

    return record_case(*args, **kwargs)
