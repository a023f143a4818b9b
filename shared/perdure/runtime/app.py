"""Apps: the components, processors and hooks that a world runs on, registered without Arrow."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, Unpack, get_args

from perdure.kernel.component import Component, ComponentType, Registry
from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.errors import NotFound, UnknownAgent
from perdure.kernel.ids import checked_id
from perdure.kernel.shown import shown
from perdure.runtime.documents.jobs.declaration import Function, Job, JobOptions, declared
from perdure.runtime.resources import Factory, Pool
from perdure.runtime.session.agent import checked_agent

if TYPE_CHECKING:
    import pyarrow as pa

    from perdure.runtime.compute import TickContext
    from perdure.runtime.session.agent import Agent

Moment = Literal[
    "PreTick",
    "PostTick",
    "OnSpawn",
    "OnDespawn",
    "OnComponentAdded",
    "OnComponentRemoved",
    "OnDestroy",
]
Process: TypeAlias = "Callable[[pa.Table, TickContext], pa.Table | Awaitable[pa.Table]]"
Tell: TypeAlias = Callable[[Any], object]

_ComponentT = TypeVar("_ComponentT", bound=type[Component])
_ProcessT = TypeVar("_ProcessT", bound="Process")
_TellT = TypeVar("_TellT", bound=Tell)
_FactoryT = TypeVar("_FactoryT", bound=Factory)

_MOMENTS: Final = get_args(Moment)


@dataclass(frozen=True, slots=True)
class Processor:
    """A function over the rows of every archetype that has all of ``components``.

    Smaller priorities run first, equal ones by name.
    """

    name: str
    components: tuple[ComponentType, ...]
    priority: int
    process: Process


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that is told of a moment of each tick."""

    name: str
    moment: Moment
    tell: Tell


class App:
    """What a world runs on. Modules of processors are imported only where ticks are served."""

    def __init__(self, name: str = "app") -> None:
        self.name = name
        self.registry = Registry()
        self._modules: list[str] = []
        self._processors: dict[str, Processor] = {}
        self._hooks: dict[str, Hook] = {}
        self.resources = Pool()
        self._agents: dict[str, Agent] = {}
        self._jobs: dict[str, Job] = {}
        self._prefixes: dict[str, str] = {}

    def component(self, model: _ComponentT) -> _ComponentT:
        """Register a component class: a decorator. Raises TypeError.

        Two names that differ in case only would share their columns, and are refused.
        """
        name = model.component.name
        known = self._prefixes.setdefault(name.lower(), name)
        if known != name:
            raise TypeError(
                f"Expected component names that differ not only in case; found {known} and {name}."
            )
        self.registry.add(model)
        return model

    def processor(
        self, *components: type[Component], priority: int = 0, name: str | None = None
    ) -> Callable[[_ProcessT], _ProcessT]:
        """Register ``(rows, tick) -> rows`` to run in every tick: a decorator.

        ``rows`` holds ``entity_id`` and the columns of one whole archetype, in the order of
        entities; the result has the same rows and columns. The function may be ``async``.
        """

        def register(process: _ProcessT) -> _ProcessT:
            known_as = checked_id(name or process.__name__, what="a name of a processor")
            if known_as in self._processors:
                raise ValueError(f"Expected one processor named {known_as!r}; found two.")
            for model in components:
                self.component(model)
            described = tuple(model.component for model in components)
            self._processors[known_as] = Processor(known_as, described, priority, process)
            return process

        return register

    def hook(self, moment: Moment, name: str | None = None) -> Callable[[_TellT], _TellT]:
        """Register a function to be told of a moment of every tick, or of a world's end.

        A hook advises: what it returns is ignored, what it raises is reported and changes
        nothing. It may be ``async``. It is known by its own name unless one is given.
        """
        if moment not in _MOMENTS:
            raise ValueError(f"Expected one of {', '.join(_MOMENTS)}; found {moment!r}.")

        def register(tell: _TellT) -> _TellT:
            known_as = checked_id(name or _named(tell), what="a name of a hook")
            if known_as in self._hooks:
                raise ValueError(f"Expected one hook named {known_as!r}; found two.")
            self._hooks[known_as] = Hook(known_as, moment, tell)
            return tell

        return register

    def resource(self, name: str) -> Callable[[_FactoryT], _FactoryT]:
        """Register a factory without arguments for ``tick.resources[name]``: a decorator.

        It is called once in each process, when the object is first asked for.
        """

        def register(factory: _FactoryT) -> _FactoryT:
            self.resources.add(checked_id(name, what="a name of a resource"), factory)
            return factory

        return register

    def agent(self, agent: Agent) -> Agent:
        """Register an agent for sessions. Raises InvalidId, Invalid."""
        checked_agent(agent)
        if self._agents.setdefault(checked_id(agent.name, what="an agent's name"), agent) != agent:
            raise ValueError(f"Expected one agent named {agent.name!r}; found two.")
        return agent

    def agent_named(self, name: str) -> Agent:
        """Return an agent; those of included modules are known after :meth:`load`.

        Raises: UnknownAgent.
        """
        found = self._agents.get(name)
        if found is None:
            raise UnknownAgent(
                expected=f"one of the agents {', '.join(sorted(self._agents)) or '(none)'}",
                found=shown(name),
            )
        return found

    def job(
        self, name: str, *, owner: str, args: Any, result: Any, **options: Unpack[JobOptions]
    ) -> Callable[[Function], Job]:
        """Register an async function as a job of an owner's: a decorator that returns the job.

        ``args``, ``result`` and ``state`` are shapes of JSON, best said as pydantic models.
        """

        def register(function: Function) -> Job:
            job = declared(name, function, owner=owner, args=args, result=result, options=options)
            if name in self._jobs:
                raise ValueError(f"Expected one job named {name!r}; found two.")
            self._jobs[name] = job
            return job

        return register

    def job_named(self, name: str) -> Job:
        """Return a job; those of included modules are known after :meth:`load`.

        Raises: UnknownJob.
        """
        found = self._jobs.get(name)
        if found is None:
            raise UnknownJob(
                expected=f"one of the jobs {', '.join(sorted(self._jobs)) or '(none)'}",
                found=shown(name),
            )
        return found

    def job_owners(self) -> tuple[str, ...]:
        """Return whose jobs it declares."""
        return tuple(sorted({job.owner for job in self._jobs.values()}))

    def include(self, *modules: str) -> None:
        """Name modules that register processors, agents and jobs on import; :meth:`load` imports them."""
        self._modules.extend(modules)

    def load(self) -> None:
        """Import what was included. Modules named once are imported once."""
        for module in self._modules:
            importlib.import_module(module)

    def processors(self) -> tuple[Processor, ...]:
        """Return the processors in the order in which they run."""
        return tuple(sorted(self._processors.values(), key=lambda each: (each.priority, each.name)))

    def hooks(self, moment: Moment | None = None) -> tuple[Hook, ...]:
        """Return the hooks of a moment, or all, in the order of their registration."""
        return tuple(each for each in self._hooks.values() if moment in {None, each.moment})


def _named(tell: Tell) -> str:
    return getattr(tell, "__name__", type(tell).__name__)


def load_app(reference: str) -> App:
    """Return the app at ``module:attribute``. Raises NotFound.

    An error inside the module is not hidden: it is raised as it is.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise NotFound(expected="an app as 'module:attribute'", found=repr(reference))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise NotFound(expected=f"a module {module!r}", found="none") from error
    found = getattr(imported, attribute, None)
    if not isinstance(found, App):
        raise NotFound(expected=f"an App at {reference!r}", found=type(found).__name__)
    return found
