"""Papermill on text notebooks: `papermill notebooks/x.py` runs it and puts the result into the book.

Papermill reads and writes `.ipynb` only. It loads this module, through an entry point, as the last
step of importing its engines; at that moment its reading, writing and parameter functions can be
extended before the rest of papermill picks them up. Notebooks that are not text pass through as before.
"""

from __future__ import annotations

import copy
import functools
import importlib.machinery
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from reconlib.files import atomic_path
from reconlib.text_notebooks import (
    KEPT,
    TextNotebookError,
    check_parameters,
    default_output,
    read_text_notebook,
    typed,
)

HELP = f"""\b
Text notebooks (percent-format .py) need no OUTPUT_PATH: the result goes to the
notebook paired with it in pyproject.toml, or, for a profile other than {KEPT!r}
or with --prepare-only, to _runs/<profile>/ beside the paired folder. A failed
run never replaces the last good one; it is kept beside it as *.failed.ipynb.
With an OUTPUT_PATH x.ipynb, the results file goes to x.results/ too."""

_SOURCE = "text_source"  # marks, in memory only, a notebook that was read from text
_RESULTS = "RECONLIB_RESULTS"  # see `reconlib.results.record`
_log = logging.getLogger("papermill")
_installed = False


class _DefaultOutput(str):
    """The default output as papermill's OUTPUT_PATH, which it formats with the run's parameters.

    Only there are the parameters of all five options that can set them known, the profile among them.
    """

    source: str
    prepare_only: bool

    @classmethod
    def of(cls, source: str, prepare_only: bool) -> _DefaultOutput:
        self = cls(os.path.relpath(default_output(source)))
        self.source, self.prepare_only = source, prepare_only
        return self

    def format(self, *args: object, **parameters: object) -> str:
        profile = "prepared" if self.prepare_only else str(parameters.get("profile", KEPT))
        return os.path.relpath(default_output(self.source.format(*args, **parameters), profile))


def _is_text(path: object) -> bool:
    return isinstance(path, str) and path.endswith(".py")


def _is_file_of(notebook: Any, path: object) -> bool:
    """Whether `path` is a local file to be written for a notebook that was read from text."""
    return (
        _SOURCE in notebook.metadata
        and isinstance(path, str)
        and not path.startswith("-")
        and "://" not in path
    )


def _refuse_source(path: object) -> None:
    if _is_text(path):
        raise TextNotebookError(
            f"{path} is a text notebook, and a source is never written to; name an output that ends in .ipynb"
        )


def _absolute(path: str) -> Path:
    """`path` from the folder papermill was started in, also while it works in the folder of --cwd."""
    from papermill.iorw import papermill_io

    handler = papermill_io.get_handler("local")
    folder = handler.cwd(None)
    handler.cwd(folder)
    return Path(folder or os.getcwd(), path)


def _beside(path: Path, state: str) -> Path:
    return path.with_name(f"{path.stem}.{state}.ipynb")


def _portable(notebook: Any) -> Any:
    """A copy without what belongs to this machine or this run alone: absolute paths and random ids."""
    from jupytext.config import find_jupytext_configuration_file

    notebook = copy.deepcopy(notebook)
    source = Path(notebook.metadata.pop(_SOURCE))
    config = find_jupytext_configuration_file(source.parent)
    root = Path(config).parent if config else source.parent
    for key in ("input_path", "output_path"):
        path = Path(os.path.abspath(notebook.metadata.papermill.get(key) or ""))
        inside = path.is_relative_to(root)
        notebook.metadata.papermill[key] = path.relative_to(root).as_posix() if inside else path.name
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
    return notebook


def _reading_text(load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(load)
    def load_notebook_node(path: Any) -> Any:
        if not _is_text(path):
            return load(path)
        notebook = load(read_text_notebook(_absolute(path)))
        notebook.metadata[_SOURCE] = str(_absolute(path).resolve())
        return notebook

    return load_notebook_node


def _typing(infer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(infer)
    def infer_parameters(notebook: Any, *args: Any, **options: Any) -> Any:
        declared = infer(notebook, *args, **options)
        return [typed(parameter) for parameter in declared] if _SOURCE in notebook.metadata else declared

    return infer_parameters


def _checking_parameters(parameterize: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parameterize)
    def parameterize_notebook(notebook: Any, parameters: Any, *args: Any, **options: Any) -> Any:
        if _SOURCE in notebook.metadata:
            check_parameters(Path(notebook.metadata[_SOURCE]).name, notebook, parameters)
        return parameterize(notebook, parameters, *args, **options)

    return parameterize_notebook


@contextmanager
def _results_beside(notebook: Any, target: Path) -> Iterator[None]:
    """Keep the results of a run that has an output of its own beside that output.

    Otherwise `papermill x.py other.ipynb -p seed 1` would replace the numbers behind the page in the book.
    """
    profile = notebook.metadata.papermill.get("parameters", {}).get("profile", KEPT)
    usual = default_output(notebook.metadata[_SOURCE], str(profile))
    if os.environ.get(_RESULTS) or target.resolve() == usual.resolve():
        yield
        return
    os.environ[_RESULTS] = str(target.with_suffix(".results"))  # inherited by the kernel
    try:
        yield
    finally:
        del os.environ[_RESULTS]


def _running_apart(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def execute_notebook_with_engine(name: Any, nb: Any, kernel_name: Any, **options: Any) -> Any:
        path: Any = options.get("output_path")
        _refuse_source(path)
        if not _is_file_of(nb, path):
            return execute(name, nb, kernel_name, **options)
        target = _absolute(path)
        running = _beside(target, "running")
        running.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _results_beside(nb, target):
                return execute(name, nb, kernel_name, **{**options, "output_path": str(running)})
        except BaseException:
            # A dead kernel, a time-out or Ctrl-C: papermill marks such a notebook as completed.
            if running.exists():
                running.replace(_beside(target, "failed"))
                _tell_failure(target)
            raise

    return execute_notebook_with_engine


def _keeping_last_good(write: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(write)
    def write_ipynb(notebook: Any, path: Any) -> None:
        _refuse_source(path)
        if not _is_file_of(notebook, path):
            return write(notebook, path)
        import nbformat
        from papermill.execute import ERROR_MARKER_TAG

        target = _absolute(path)
        failed = any(ERROR_MARKER_TAG in cell.metadata.get("tags", []) for cell in notebook.cells)
        with atomic_path(_beside(target, "failed") if failed else target) as temporary:
            nbformat.write(_portable(notebook), temporary)
        _beside(target, "running").unlink(missing_ok=True)
        if failed:
            _tell_failure(target)
        else:
            _beside(target, "failed").unlink(missing_ok=True)

    return write_ipynb


def _tell_failure(target: Path) -> None:
    kept = f"; {target.name} is left as it was" if target.exists() else ""
    _log.error(f"The run failed and is kept in {os.path.relpath(_beside(target, 'failed'))}{kept}.")


def _extend_command(cli: ModuleType) -> None:
    """Let papermill's command take a text notebook without an output, and report misuse in one line."""
    import click

    command, run = cli.papermill, cli.papermill.callback

    @functools.wraps(run)
    def callback(**given: Any) -> Any:
        source = given["notebook_path"]
        try:
            _refuse_source(given["output_path"])
            if _is_text(source) and not given["output_path"]:
                given["output_path"] = _DefaultOutput.of(source, given["prepare_only"])
            if _is_text(source) and "{" not in source and not Path(source).is_file():
                near = ", ".join(sorted(p.name for p in Path(source).parent.glob("*.py"))) or "none"
                raise TextNotebookError(f"there is no notebook {source}. Notebooks in its folder: {near}")
            return run(**given)
        except TextNotebookError as error:
            raise click.ClickException(str(error)) from None

    command.callback = callback
    command.help = f"{command.help}\n\n{HELP}"


class _CommandFinder(MetaPathFinder):
    """Extends papermill's command right after its module has run; papermill has no entry point for that."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "papermill.cli":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _extend_command(module)

        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 (a plain assignment is a type error)
        return spec


def _install() -> Any:
    global _installed
    import papermill.engines as engines
    import papermill.iorw as iorw

    if not _installed:
        _installed = True
        iorw.load_notebook_node = _reading_text(iorw.load_notebook_node)
        iorw.write_ipynb = _keeping_last_good(iorw.write_ipynb)
        import papermill.inspection as inspection  # only now, so that both see the extended functions
        import papermill.parameterize as parameterize

        inspection._infer_parameters = _typing(inspection._infer_parameters)
        parameterize.parameterize_notebook = _checking_parameters(parameterize.parameterize_notebook)
        known = engines.papermill_engines
        known.execute_notebook_with_engine = _running_apart(known.execute_notebook_with_engine)
        sys.meta_path.insert(0, _CommandFinder())
    return engines.NBClientEngine


def __getattr__(name: str) -> Any:
    if name == "engine":  # what the entry point names: papermill asks for it once
        return _install()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
