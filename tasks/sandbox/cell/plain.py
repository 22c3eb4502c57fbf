"""Plain values as JSON: the only form in which anything crosses from untrusted code.

None, bool, int, float, str and list are themselves; the rest is an object of one key. Decoding builds plain
values of exactly these types, whatever class the sender's value had, and never runs code.
"""

from typing import Any

Json = Any  # what json.loads returns
Value = Any  # None, bool, int, float, complex, str, bytes, list, tuple, set, dict or Opaque, when it was decoded
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)  # raised by decode


class Opaque:
    """Stands for a value that cannot be carried (a generator, an instance, a function): equal to nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def encode(value: Value) -> Json:
    """`value` as JSON; subclasses as their plain base, anything else as opaque."""
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < 2**63 else {"int": hex(number)}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    for name, kinds in (("tuple", tuple), ("set", (set, frozenset))):
        if isinstance(value, kinds):
            return {name: [encode(v) for v in value]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    return {"opaque": type(value).__name__}


def decode(value: Json) -> Value:
    """The plain value that `value` stands for; raises one of `MALFORMED` where it stands for none."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "dict":
        return {decode(k): decode(v) for k, v in content}
    if kind == "tuple":
        return tuple(decode(v) for v in content)
    if kind == "set":
        return {decode(v) for v in content}
    if kind == "int":
        return int(content, 16)
    if kind == "complex":
        real, imaginary = content
        return complex(float(real), float(imaginary))
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "opaque":
        return Opaque(str(content))
    raise ValueError(f"no such kind of value: {kind}")
