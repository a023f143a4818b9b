"""The dispatcher's one processor: aircraft fly as they do in the airspace."""

from __future__ import annotations

from airspace.components import Position, Route
from airspace.processors import fly
from dispatcher.app import app

app.processor(Position, Route)(fly)
