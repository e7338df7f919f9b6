"""LoRA adapters as files: :class:`AdapterFormat` reads and writes them."""

from __future__ import annotations

import os

from . import _native
from ._values import OrtValue


class AdapterFormat:
    """The contents of an adapter file: values for inputs of a model, by name."""

    def __init__(self, adapter: tuple[int, int, int, dict[str, _native.OrtValue]] | None = None) -> None:
        self._format_version, self._adapter_version, self._model_version, self._parameters = adapter or (1, 0, 0, {})

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """The contents of a file."""
        return AdapterFormat(_native.read_adapter(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Writes a file that this package and onnxruntime read."""
        _native.write_adapter(file_path, self._adapter_version, self._model_version, self._parameters)

    def get_format_version(self) -> int:
        """The version of the format: 1."""
        return self._format_version

    def set_adapter_version(self, adapter_version: int) -> None:
        """Sets the version of the adapter."""
        self._adapter_version = adapter_version

    def get_adapter_version(self) -> int:
        """The version of the adapter."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """Sets the version of the model that the adapter is for."""
        self._model_version = model_version

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._model_version

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Sets the values, by the names of the inputs."""
        self._parameters = {name: value._ortvalue for name, value in params.items()}

    def get_parameters(self) -> dict[str, OrtValue]:
        """The values, by the names of the inputs."""
        return {name: OrtValue(value) for name, value in self._parameters.items()}
