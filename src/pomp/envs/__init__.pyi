from pomp.envs.image import ImageObservation as ImageObservation
from pomp.envs.karel_env import KarelEnv as KarelEnv
from pomp.envs.option_env import (
    ProgramOptionEnv as ProgramOptionEnv,
    ProgramOptionVectorEnv as ProgramOptionVectorEnv,
)
from pomp.envs.registration import register_envs as register_envs
from pomp.envs.torch_env import KarelTorchEnv as KarelTorchEnv
from pomp.envs.vector_env import KarelVectorEnv as KarelVectorEnv
