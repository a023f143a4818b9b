"""The function `dispatch`: finds the worlds whose time has come, and tells the queue of them."""

from perdure.api import ticking
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_dispatch import dispatching

sandbox = Sandbox(dispatching, (), ticking.dispatch_due)
handler = sandbox.handler
