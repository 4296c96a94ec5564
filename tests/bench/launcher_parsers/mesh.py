# SPDX-License-Identifier: GPL-2.0-or-later
"""torch.distributed's device mesh and pipeline schedules as far as checks of parallel dimensions ask: sizes by name,
and the one requirement that PyTorch's 1F1B has."""
import math

from . import stubs


class Mesh:
    def __init__(self, dims, names):
        self.dims, self.mesh_dim_names, self.flat = tuple(dims), tuple(names), {}

    @classmethod
    def init(cls, device, dims, *, mesh_dim_names=None, **_):
        return cls(dims, mesh_dim_names or tuple(map(str, range(len(dims)))))

    @property
    def ndim(self):
        return len(self.dims)

    @property
    def shape(self):
        return self.dims

    def size(self, dim=None):
        return math.prod(self.dims) if dim is None else self.dims[dim]

    def get_local_rank(self, *_):
        return 0

    def get_group(self, *_):
        return stubs.Stub()

    def get_rank(self):
        return 0

    def __getitem__(self, names):
        names = (names,) if isinstance(names, str) else tuple(names)
        if len(names) == 1 and names[0] in self.flat:
            return self.flat[names[0]]
        for name in names:
            if name not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are "
                               f"{list(self.mesh_dim_names)}.")
        return _Slice(self, [self.dims[self.mesh_dim_names.index(name)] for name in names], names)

    def _flatten(self, mesh_dim_name=None, *_, **__):
        made = Mesh([self.size()], [mesh_dim_name])
        self.root.flat[mesh_dim_name] = made
        return made

    @property
    def root(self):
        return self

    def _unflatten(self, _dim, sizes, names, **_):
        if math.prod(sizes) != self.size():
            raise ValueError(f"{sizes} do not make a mesh of {self.size()}")
        return Mesh(sizes, names)

    @staticmethod
    def _concatenate(meshes):
        return Mesh([size for mesh in meshes for size in mesh.dims],
                    [name for mesh in meshes for name in mesh.mesh_dim_names])


class _Slice(Mesh):
    def __init__(self, of, dims, names):
        super().__init__(dims, names)
        self._of = of

    @property
    def root(self):
        return self._of.root


class Schedule:
    def __init__(self, stages, n_microbatches, loss_fn=None, **_):
        self.n_microbatches = n_microbatches


class Single(Schedule):
    pass


class Multi(Schedule):
    pass


class Schedules:
    """torch.distributed.pipelining.schedules."""

    stages = 1

    @classmethod
    def install(cls):
        class OneForwardOneBackward(Single):
            def __init__(self, stages, n_microbatches, loss_fn=None, **_):
                super().__init__(stages, n_microbatches)
                if n_microbatches < cls.stages:  # PyTorch's own check
                    raise ValueError(f"Number of microbatches ({n_microbatches}) must be greater than or equal to "
                                     f"the number of stages ({cls.stages}).")

        known = {"1f1b": OneForwardOneBackward, "gpipe": Single, "interleaved1f1b": Multi}
        module = "torch.distributed.pipelining.schedules."
        stubs.put(module + "PipelineScheduleSingle", Single)
        stubs.put(module + "PipelineScheduleMulti", Multi)
        stubs.put(module + "_PipelineSchedule", Schedule)
        stubs.put(module + "get_schedule_class", lambda name: known[name.lower()])
