"""onnxruntime's package information: a name, a version, no CUDA."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """The name of the package, the version of onnxruntime whose API it has, and that of CUDA: none."""
    from .. import __version__

    return "ort_rs", __version__, ""


def check_distro_info() -> None:
    """Accepted; every distribution that loads is supported."""


def check_training_module() -> tuple[bool, None, str, str, str]:
    """Training is not supported."""
    name, version, cuda = get_package_name_and_version_info()
    return False, None, name, version, cuda
