# SPDX-License-Identifier: GPL-2.0-or-later
# arena.py, for PyTorch scripts: `arena-args --python` prints where it is; `pip install contrib/python/` takes it from the tree.
arenapydir = $(pkgdatadir)/python
dist_arenapy_DATA = contrib/python/arena.py contrib/python/pyproject.toml
dist_man_MANS += doc/man/arena.py.7
TESTS += tests/t0450-arena-py.t
dist_check_SCRIPTS += tests/t0450-arena-py.t
tests/t0450-arena-py.log: tests/tools/fake_chief$(EXEEXT) arena-watch$(EXEEXT) $(watch_LTLIBRARIES)
EXTRA_DIST += \
	tests/arena_py/adapters.py \
	tests/arena_py/real_frameworks.py \
	tests/arena_py/train.py \
	tests/arena_py/units.py \
	# end
