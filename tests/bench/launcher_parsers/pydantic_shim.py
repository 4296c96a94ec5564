# SPDX-License-Identifier: GPL-2.0-or-later
"""As much of pydantic as DeepSpeed's configuration classes need: fields with defaults, bounds and aliases, types of
numbers and enumerations, unknown keys refused where the class says so."""
import enum
import sys
import types
import typing

MISSING = object()


class Info:
    def __init__(self, default=MISSING, **how):
        self.default, self.how = default, how
        self.alias = how.get("alias")

    def value(self):
        factory = self.how.get("default_factory")
        return factory() if factory else self.default

    def check(self, name, value):
        for word, wrong in (("ge", lambda a, b: a < b), ("gt", lambda a, b: a <= b), ("le", lambda a, b: a > b),
                            ("lt", lambda a, b: a >= b)):
            bound = self.how.get(word)
            if bound is not None and isinstance(value, (int, float)) and wrong(value, bound):
                raise ValueError(f"{name} = {value} is not {word} {bound}")


def _coerce(kind, name, value):
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind in (int, float, bool) and isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} is no {kind.__name__}: {value!r}")
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        return kind(**value)
    return value


class BaseModel:
    def __init__(self, **given):
        hints = {}
        for base in reversed(type(self).__mro__):
            hints.update({name: kind for name, kind in base.__dict__.get("__annotations__", {}).items()
                          if "ClassVar" not in str(kind)})
        resolved = _resolve(type(self), hints)
        fields = {}
        for name in hints:
            found = getattr(type(self), name, MISSING)
            fields[name] = found if isinstance(found, Info) else Info(found)
        for name, info in fields.items():
            value = given.pop(name, given.pop(info.alias, MISSING) if info.alias else MISSING)
            if value is MISSING:
                value = info.value()
            else:
                value = _coerce(resolved.get(name), name, value)
                info.check(name, value)
            object.__setattr__(self, name, None if value is MISSING else value)
        config = getattr(type(self), "model_config", None) or {}
        old = getattr(type(self), "Config", None)
        extra = config.get("extra", getattr(old, "extra", "ignore"))
        if given and extra == "forbid":
            raise ValueError(f"{type(self).__name__} has no field {', '.join(sorted(given))}")
        self.model_fields_set = set()

    model_fields: typing.ClassVar = {}
    __fields__: typing.ClassVar = {}


def _resolve(cls, hints):
    try:
        return {**hints, **typing.get_type_hints(cls)}
    except Exception:  # pylint: disable=broad-except  # a name of a stub: the value is taken as it is
        return hints


def _decorator(*_, **__):
    return lambda method: method


def install():
    module = types.ModuleType("pydantic")
    module.BaseModel, module.Field, module.VERSION, module.__version__ = BaseModel, Info, "2.9.0", "2.9.0"
    module.ConfigDict = lambda **how: how
    for name in ("validator", "root_validator", "field_validator", "model_validator", "field_serializer"):
        setattr(module, name, _decorator)
    module.fields = types.SimpleNamespace(FieldInfo=Info)
    module.ValidationError, module.PrivateAttr = ValueError, Info
    module.version = types.SimpleNamespace(VERSION="2.9.0")
    sys.modules.update({"pydantic": module, "pydantic.v1": module})
