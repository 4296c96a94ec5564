# SPDX-License-Identifier: GPL-2.0-or-later
"""Imports a framework without PyTorch and whatever else is not installed: a module that is not there becomes a
stub whose every attribute is a class that can be subclassed, called, used as a decorator and indexed. What a
checker relies on (world size, devices) it sets on the stub by name; nothing is guessed from a stub's value, for
arithmetic and truth of one are refused."""
import typing
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import functools
import os
import re
import sys
import types


class Reached(Exception):
    """A stub was used as a value: the framework went further than its checks of arguments."""


class _Meta(type(typing.Protocol)):
    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (Stub,), {"__module__": f"{cls.__module__}.{cls.__name__}", "_made": True})
        type.__setattr__(cls, name, made)
        return made

    def __call__(cls, *args, **kwargs):
        if not cls.__dict__.get("_made"):  # a class of the framework on top of a stub
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type, classmethod, staticmethod)):
            return args[0]  # a decorator
        return super().__call__(*args, **kwargs)

    def __getitem__(cls, _):
        return cls

    def __iter__(cls):
        return iter(())

    def __contains__(cls, _):
        return False

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __bool__(cls):
        return True

    def __index__(cls):
        raise Reached(f"{cls.__module__}.{cls.__name__} as a number")

    __int__ = __float__ = __index__

    def __mro_entries__(cls, bases):
        return (cls,)


class Stub(metaclass=_Meta):
    """The value of everything that is not there."""

    _made = True

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Stub()

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type, classmethod, staticmethod)):
            return args[0]
        return Stub()

    def __getitem__(self, _):
        return Stub()

    def __setitem__(self, *_):
        pass

    def __iter__(self):
        return iter(())

    def __format__(self, _):
        return "stub"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __index__(self):
        raise Reached("a stub as a number")

    __int__ = __float__ = __index__


class StubModule(types.ModuleType):
    """One module that is not installed."""

    __version__ = "9.9.9"

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (Stub,), {"__module__": self.__name__, "_made": True})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes stubs of the modules `stubbed` and what is inside them, also where a checkout has them. Packages named
    `hollow` are stubs whose modules are the checkout's: their own __init__ does not run."""

    def __init__(self, directory, stubbed, hollow):
        self.directory, self.stubbed, self.hollow = str(directory), tuple(stubbed), tuple(hollow)

    def find_spec(self, name, path=None, target=None):
        if name in self.hollow:
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [os.path.join(self.directory, *name.split("."))]
            return spec
        if not any(name == one or name.startswith(one + ".") for one in self.stubbed):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        parent, _, child = module.__name__.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)


@functools.total_ordering
class Version:
    """packaging.version.Version for the comparisons that frameworks make at import: 2.1, 2.2.0a0, 1.0.0rc1."""

    def __init__(self, text):
        found = re.match(r"v?(\d+(?:\.\d+)*)(?:\.?(a|b|rc|dev)\.?(\d*))?", str(text))
        if not found:
            raise ValueError(f"no version: {text}")
        self.text, self.release = str(text), tuple(int(part) for part in found[1].split("."))
        trimmed = re.sub(r"(\.0)+$", "", found[1])
        self.key = (tuple(int(part) for part in trimmed.split(".")), found[2] or "z", int(found[3] or 0))
        self.major, self.minor, self.micro = (self.release + (0, 0))[:3]
        self.base_version, self.public, self.local = found[1], str(text), None
        self.pre = (found[2], int(found[3] or 0)) if found[2] in ("a", "b", "rc") else None
        self.dev = int(dev[1]) if (dev := re.search(r"dev(\d+)", str(text))) else None

    def __eq__(self, other):
        return self.key == Version(str(other)).key

    def __lt__(self, other):
        return self.key < Version(str(other)).key

    def __hash__(self):
        return hash(self.key)

    def __str__(self):
        return self.text


def _packaging():
    package, module = StubModule("packaging"), StubModule("packaging.version")
    module.Version, module.parse, module.InvalidVersion, package.version = Version, Version, ValueError, module
    wanted = package.requirements = StubModule("packaging.requirements")
    wanted.InvalidRequirement = ValueError
    sys.modules.update({"packaging": package, "packaging.version": module, "packaging.requirements": wanted})


def install(directory, stubbed, hollow=()):
    """Makes the packages of a checkout importable, and stubs of the modules named; all others that are not in the
    standard library are absent, as a framework's optional parts are."""
    _packaging()
    if not hasattr(typing, "override"):  # before Python 3.12
        typing.override = lambda method: method
    if importlib.util.find_spec("typing_extensions") is None:
        sys.modules["typing_extensions"] = typing
    sys.path.insert(0, str(directory))
    sys.meta_path.insert(0, Finder(directory, stubbed, hollow))


def put(path, value):
    """Sets one attribute, such as torch.cuda.device_count, of a stub module."""
    module, _, name = path.rpartition(".")
    setattr(importlib.import_module(module), name, value)


class Dtype:
    """One of PyTorch's types of numbers: its name is all that matters."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


def dtypes():
    for name in ("float16 float32 float64 bfloat16 half float double bool int8 int16 int32 int64 uint8 long short int "
                 "complex32 complex64 complex128 cfloat cdouble chalf qint8 qint32 quint8 quint4x2 "
                 "float8_e4m3fn float8_e5m2").split():
        put(f"torch.{name}", Dtype(name))
