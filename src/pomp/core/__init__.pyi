from pomp.core.errors import (
    ClusterError as ClusterError,
    ConfigError as ConfigError,
    CudaError as CudaError,
    DataFileError as DataFileError,
    MachineSyntaxError as MachineSyntaxError,
    MissingExtraError as MissingExtraError,
    OutputError as OutputError,
    PompError as PompError,
    ProgramSyntaxError as ProgramSyntaxError,
    TrainingError as TrainingError,
    UnknownNameError as UnknownNameError,
    UntrustedModuleError as UntrustedModuleError,
    WorldError as WorldError,
)
from pomp.core.streams import Purpose as Purpose, open_streams as open_streams
