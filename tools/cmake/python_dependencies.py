"""The dependencies of the wheel, for scikit-build-core (pyproject.toml).

nanobind-backend has no wheels for Python without the GIL, for which nanobind is linked into the module
(bindings/python/CMakeLists.txt). No environment marker tells the two kinds of Python apart.
"""

import sysconfig


def dynamic_metadata(settings, project):
    split = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return {"dependencies": settings["always"] + (settings["split_mode"] if split else [])}


def dynamic_wheel(settings):
    return {"dependencies": True}
