from pomp.karel.dynamics import Facing as Facing
from pomp.karel.interpreter import Cap as Cap, Ending as Ending
from pomp.karel.render import draw_map as draw_map
from pomp.karel.world import Map as Map, WorldBatch as WorldBatch
