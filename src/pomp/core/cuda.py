"""CUDA, where there is one: loading it, and arrays that live on it.

Arrays from elsewhere come in by the CUDA array interface; ours go out by it and by DLPack, so
torch, CuPy and JAX share memory with the engine without a copy.
"""

import ctypes
import importlib
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray

from pomp.core.code_cache import LOGGER
from pomp.core.compiling import cache_in, kernel_folder
from pomp.core.errors import CudaError, DeviceMemoryError
from pomp.core.extras import CUDA, install_line

_CONFIG: Any = numba.config

AUTO = "auto"
"""The device's name that stands for CUDA where it can be used, and else for the CPU."""

THREADS = 128  # of a block
_REGISTERS = 65_536  # of a processor, all CUDA devices since 2012

G = TypeVar("G", bound=tuple[Any, ...])


@cache
def load_cuda() -> Any:
    """Return `numba.cuda`, ready to launch kernels.

    Raises:
        CudaError: there is no device, or what drives it is not installed.
    """
    if not hasattr(np, "row_stack"):
        # numba-cuda up to 0.30 asks for an alias that NumPy 2.5 has dropped.
        setattr(np, "row_stack", np.vstack)  # noqa: B010 - the name is gone from NumPy's types
    try:
        cuda: Any = importlib.import_module("numba.cuda")
    except ImportError as error:
        raise CudaError(
            f"CUDA cannot be used: {error}. {install_line(CUDA)}, or install numba-cuda and NumPy "
            "versions that go together, or use device='cpu'"
        ) from error
    if not cuda.is_available():
        raise CudaError(
            "device 'cuda' was asked for, but no CUDA device can be used here (the driver is "
            f"missing, or: {install_line(CUDA)}); use device='cpu'"
        )
    return cuda


class DeviceKernel:
    """A CUDA kernel, launched as `kernel[blocks, threads, stream](*arguments)`.

    Its machine code is kept on disk under the fingerprint of all it is compiled from.
    """

    def __init__(self, function: Callable[..., Any], registers: int | None = None) -> None:
        self.py_func = function
        self._options = {} if registers is None else {"max_registers": registers}
        self._dispatcher: Any = None

    def __getitem__(self, place: Any) -> Any:
        """Return what launches it on so many blocks and threads, and on a stream."""
        if self._dispatcher is None:
            self._dispatcher = self._load()
        return self._dispatcher[place]

    @property
    def usage(self) -> tuple[int, int]:
        """Registers, and bytes of local memory, of a thread; the kernel has been launched."""
        registers = self._dispatcher.get_regs_per_thread().values()
        return max(registers), max(self._dispatcher.get_local_mem_per_thread().values())

    def _load(self) -> Any:
        if _CONFIG.ENABLE_CUDASIM:
            return load_cuda().jit(self.py_func)
        dispatcher = load_cuda().jit(**self._options)(self.py_func)
        from numba.cuda.dispatcher import CUDACache

        stem = f"{Path(self.py_func.__code__.co_filename).stem}.{self.py_func.__qualname__}"
        dispatcher._cache = cache_in(kernel_folder(stem, self.py_func), CUDACache, self.py_func)
        dispatcher.configure = without_advice(dispatcher.configure)
        return dispatcher


def without_advice(configure: Callable[..., Any]) -> Callable[..., Any]:
    """Return what prepares a kernel's launches without Numba's warning that blocks are few.

    A few worlds need no more blocks, and who runs them cannot give any. Other warnings pass, and
    kernels that are not pomp's are warned of as ever.
    """

    @lru_cache(maxsize=128)  # as many as Numba itself keeps: a launch costs no more than before
    def configure_quietly(*place: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*Grid size .* low occupancy")  # perhaps in bold
            return configure(*place)

    return configure_quietly


def device_kernel(function: Callable[..., Any]) -> DeviceKernel:
    """Decorator of a CUDA kernel."""
    return DeviceKernel(function)


def large_kernel(threads: int) -> Callable[[Callable[..., Any]], DeviceKernel]:
    """Decorator of a CUDA kernel that is launched with so many threads to a block.

    They share the registers of a processor, of which each gets no more than its part. So do threads
    of several blocks, if so many are to run on a processor at once.
    """
    return lambda function: DeviceKernel(function, registers=_REGISTERS // threads)


def check_device(device: str) -> str:
    """Return the name of a device that can be used, `cpu` or `cuda`; `auto` is one of them.

    Raises:
        CudaError: CUDA cannot be used, or the name is another.
    """
    if device == AUTO:
        return _find_device()
    if device == "cuda":
        load_cuda()
    elif device != "cpu":
        raise CudaError(f"a device is 'cpu', 'cuda' or '{AUTO}', got '{device}'")
    return device


@cache
def _find_device() -> str:
    """Return `cuda` where it can be used, else `cpu`, and say so once."""
    try:
        load_cuda()
    except CudaError:
        found = "cpu"
    else:
        found = "cuda"
    LOGGER.info("device %s: %s is taken", AUTO, found)
    return found


class DeviceArray:
    """An array in GPU memory that other libraries can share."""

    def __init__(self, array: Any) -> None:
        self.array = array
        """The array as Numba knows it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of its numbers."""
        return np.dtype(self.array.dtype)

    @property
    def nbytes(self) -> int:
        """The bytes it takes on the device."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.array.__cuda_array_interface__)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DL_CUDA, 0

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        load_cuda().synchronize()  # the consumer may read on any stream
        address = self.__cuda_array_interface__["data"][0]
        return export_dlpack(address, self.shape, self.dtype, self.__dlpack_device__(), self)

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: int) -> "DeviceArray":
        """Return an array of another shape in the same memory."""
        return DeviceArray(self.array.reshape(*shape))

    def copy_to_host(self) -> NDArray[Any]:
        """Return a NumPy copy, `[...]` of the same shape."""
        copied: NDArray[Any] = self.array.copy_to_host()
        return copied


def is_on_device(array: object) -> bool:
    """Whether an array is in GPU memory."""
    if isinstance(array, np.ndarray):
        return False
    return isinstance(array, DeviceArray) or hasattr(array, "__cuda_array_interface__")


def to_device(array: NDArray[Any]) -> DeviceArray:
    """Return a copy in GPU memory of an `array` of any shape, `[...]`."""
    plain = np.array(array, order="C", copy=True)  # strides of length-1 axes in order, too
    return DeviceArray(load_cuda().to_device(plain))


def to_host(array: Any) -> NDArray[Any]:
    """Return a NumPy array, `[...]`, of an array from anywhere; on the CPU it is no copy."""
    if not is_on_device(array):
        return np.asarray(array)
    return as_launchable(array).copy_to_host()


def fill(target: Any, source: NDArray[Any]) -> None:
    """Write a NumPy array, `source` `[...]`, over an array of its shape from anywhere."""
    if is_on_device(target):
        as_launchable(target).copy_to_device(np.ascontiguousarray(source))
    else:
        target[...] = source


def empty_on_device(shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
    """Return an array in GPU memory whose numbers are not set.

    Raises:
        DeviceMemoryError: there is not enough.
    """
    cuda = load_cuda()
    try:
        return DeviceArray(cuda.device_array(shape, np.dtype(dtype)))
    except Exception as error:
        if "OUT_OF_MEMORY" not in str(error):
            raise
        raise DeviceMemoryError(f"no memory on the CUDA device for {shape} {dtype}") from error


def blocks_for(threads: int) -> int:
    """Return how many blocks of `THREADS` make up so many threads."""
    return max(1, (threads + THREADS - 1) // THREADS)


def as_launchable(
    array: Any,
    name: str = "array",
    dtype: DTypeLike | None = None,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """Return what a kernel takes for an array on the device; never a copy.

    Args:
        array: from any library, by the CUDA array interface.
        name: what an error calls it.
        dtype: the type it must have; None: any.
        shape: the shape it must have; None: any.

    Raises:
        CudaError: it is not on the device, not contiguous, or has another type or shape.
    """
    if isinstance(array, DeviceArray):
        found = array.array
        if dtype is None and shape is None:
            return found
    elif hasattr(array, "__cuda_array_interface__"):
        found = load_cuda().as_cuda_array(array)
    else:
        got = f"a {type(array).__name__} on the CPU"
        raise CudaError(f"{name} must be on the CUDA device, got {got}")
    if dtype is not None and np.dtype(found.dtype) != np.dtype(dtype):
        raise CudaError(f"{name} must be {np.dtype(dtype)}, got {np.dtype(found.dtype)}")
    if shape is not None and tuple(found.shape) != shape:
        raise CudaError(f"{name} must have shape {shape}, got {tuple(found.shape)}")
    is_strided = hasattr(found, "is_c_contiguous") and not found.is_c_contiguous()
    if is_strided and 0 not in found.shape:
        raise CudaError(f"{name} must be contiguous; call .contiguous() on it first")
    return found


def map_arrays(function: Callable[[Any], Any], group: G) -> G:
    """Return a named tuple with a function of its arrays in their places.

    Numbers stay as they are; named tuples within it are treated likewise.
    """
    fields: tuple[Any, ...] = group

    def of_field(value: Any) -> Any:
        if isinstance(value, tuple):
            return map_arrays(function, value)
        return value if isinstance(value, int | float | np.generic) else function(value)

    return type(group)(*map(of_field, fields))


def as_launchable_group(group: G) -> G:
    """Return a named tuple as a kernel takes it; named tuples within it likewise.

    Arrays become what `as_launchable` gives for them, numbers stay as they are.

    Raises:
        CudaError: an array is not on the device or not contiguous.
    """
    return map_arrays(as_launchable, group)


# DLPack: a struct that describes the memory, in a capsule that keeps it alive.

_DL_CUDA = 2
_DL_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (
    ("tensor", _Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", _Deleter),
)
_EXPORTED: dict[int, object] = {}  # address of a struct -> what must live as long as it


def _forget(managed: Any) -> None:
    _EXPORTED.pop(ctypes.addressof(managed.contents), None)


_FORGET = _Deleter(_forget)


def export_dlpack(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: tuple[int, int],
    owner: object,
) -> Any:
    """Return a DLPack capsule of contiguous memory.

    A capsule that nobody takes keeps its owner for good: take it, as `torch.from_dlpack` does.

    Args:
        address: of the memory.
        shape: lengths of the axes.
        dtype: NumPy type of the numbers.
        device: DLPack's numbers of the kind of device and of the device.
        owner: what must live until the consumer lets go.
    """
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    code, bits = _DL_CODES[dtype.kind], 8 * dtype.itemsize
    tensor = _Tensor(address, *device, len(shape), code, bits, 1, extents, None, 0)
    managed = _Managed(tensor, None, _FORGET)
    _EXPORTED[ctypes.addressof(managed)] = (managed, extents, owner)
    new: Callable[..., Any] = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object  # type: ignore[attr-defined]
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)  # type: ignore[attr-defined]
    return new(ctypes.addressof(managed), b"dltensor", None)
