# SPDX-License-Identifier: GPL-2.0-or-later
"""torch.distributed's device mesh and pipeline schedules as far as checks of parallel dimensions ask: sizes by name,
and what PyTorch's schedules require of their counts."""
import math

from . import stubs


class Mesh:
    local_rank = 0

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
        return self.local_rank

    def get_group(self, *_):
        return stubs.Stub()

    def get_rank(self):
        return 0

    def __getitem__(self, names):
        names = (names,) if isinstance(names, str) else tuple(names)
        if len(names) == 1 and names[0] in self.flat:
            return self.flat[names[0]]
        sizes = {**dict(zip(self.mesh_dim_names, self.dims)), **{name: flat.size() for name, flat in self.flat.items()}}
        for name in names:
            if name not in sizes:
                raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {list(sizes)}.")
        return _Slice(self, [sizes[name] for name in names], names)

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


class Stage:
    """torch.distributed.pipelining.PipelineStage."""

    def __init__(self, submod, stage_index, num_stages, *_, **__):
        self.submod, self.stage_index, self.num_stages = submod, stage_index, num_stages
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1


class Schedule:
    """One of torch.distributed.pipelining.schedules, with PyTorch's own checks of counts. `made` is the last that was made."""

    name, made = "gpipe", None

    def __init__(self, stages, n_microbatches, loss_fn=None, **_):
        self.n_microbatches, self.stages = n_microbatches, stages if isinstance(stages, list) else [stages]
        self.overlaps, Schedule.made = False, self
        self.check(n_microbatches, Schedules.stages, len(self.stages))

    def check(self, count, ranks, chunks):
        pass

    def register_custom_function(self, *_):
        self.overlaps = True


class Single(Schedule):
    pass


class Multi(Schedule):
    def check(self, count, ranks, chunks):
        rounds = max(1, count // ranks)
        if count % rounds:
            raise ValueError(f"the number of microbatches must be a multiple of the number of rounds ({rounds}), but got {count}")


class OneForwardOneBackward(Single):
    name = "1f1b"

    def check(self, count, ranks, chunks):
        if count < ranks:
            raise ValueError(f"Number of microbatches ({count}) must be greater than or equal to the number of stages ({ranks}).")


class Interleaved(Multi):
    name = "1f1b"


class ZeroBubble(Multi):
    name = "zbh1"


class VShaped(Multi):
    least = 1  # micro-batches for each rank

    def check(self, count, ranks, chunks):
        if chunks != 2:
            raise ValueError(f"requires exactly 2 stages per rank, but got {chunks}.")
        if count < self.least * ranks:
            raise ValueError(f"requires at least as many microbatches as stages, but got {count} microbatches and "
                             f"{2 * ranks} stages.")


class ZeroBubbleV(VShaped):
    name = "zbv"


class DualPipeV(VShaped):
    name, least = "dualpipev", 2


class Schedules:
    """torch.distributed.pipelining.schedules."""

    stages = 1  # of the plan: the ranks of a pipeline

    @classmethod
    def install(cls):
        known = {"1f1b": OneForwardOneBackward, "gpipe": Single, "interleaved1f1b": Interleaved,
                 "interleavedzerobubble": ZeroBubble, "zbvzerobubble": ZeroBubbleV, "dualpipev": DualPipeV}
        module = "torch.distributed.pipelining.schedules."
        stubs.put(module + "PipelineScheduleSingle", Single)
        stubs.put(module + "PipelineScheduleMulti", Multi)
        stubs.put(module + "_PipelineSchedule", Schedule)
        stubs.put(module + "ScheduleZBVZeroBubble", ZeroBubbleV)
        stubs.put(module + "ScheduleDualPipeV", DualPipeV)
        stubs.put(module + "get_schedule_class", lambda name: known[name.lower()])
        stubs.put("torch.distributed.pipelining.PipelineStage", Stage)
