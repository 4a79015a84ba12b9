from pomp.evolution.config import EvolveConfig as EvolveConfig
from pomp.evolution.search import Evolution as Evolution
