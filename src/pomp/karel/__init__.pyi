from pomp.core.compiling import scalar as scalar
from pomp.karel.dynamics import (
    COUNT as COUNT,
    HEIGHT as HEIGHT,
    WALL as WALL,
    WIDTH as WIDTH,
    Facing as Facing,
    ahead as ahead,
)
from pomp.karel.interpreter import Cap as Cap, Ending as Ending
from pomp.karel.render import draw_map as draw_map
from pomp.karel.sensor_set import SensorSet as SensorSet
from pomp.karel.sensors import Sensor as Sensor
from pomp.karel.world import Map as Map, WorldBatch as WorldBatch
