"""What every bus promises. An adapter is tested by a class that inherits `BusPromises` and has a fixture `world`."""

from podium.testing.bus_promises.promises import BusPromises
from podium.testing.bus_promises.world import BusWorld

__all__ = ["BusPromises", "BusWorld"]
