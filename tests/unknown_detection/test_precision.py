"""Exact float32 within a block, whatever the program has set, and its settings again behind it."""

import pytest

torch = pytest.importorskip("torch", reason="reads torch's settings")

from unknown_detection.precision import exact_float32  # noqa: E402

if not hasattr(torch.backends.cudnn, "conv"):
    pytest.skip("reads settings that torch has since 2.9", allow_module_level=True)


def current_settings():
    backends = torch.backends
    of_gpu = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    return [
        *(operation.fp32_precision for operation in (*of_gpu, backends.mkldnn.matmul, backends.mkldnn.conv)),
        backends.cudnn.benchmark,
        backends.cudnn.deterministic,
    ]


@pytest.fixture
def restored():
    """Settings of torch itself, after a test that changes them."""
    backends = torch.backends
    places = [backends, backends.cuda.matmul, backends.cudnn, backends.cudnn.conv, backends.cudnn.rnn]
    places += [backends.mkldnn, backends.mkldnn.matmul, backends.mkldnn.conv]
    before = [place.fp32_precision for place in places]
    yield
    for place, value in zip(places, before, strict=True):
        place.fp32_precision = value


def of_everything():
    torch.backends.fp32_precision = "tf32"


def of_convolutions():
    torch.backends.cudnn.conv.fp32_precision = "ieee"


def of_products():
    torch.set_float32_matmul_precision("medium")


def of_both():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


@pytest.mark.parametrize("settings", [of_everything, of_convolutions, of_products, of_both, lambda: None])
def test_a_model_file_s_settings_count_outside_only(restored, settings):
    settings()
    before = current_settings()
    with exact_float32():
        assert current_settings() == ["ieee"] * 5 + [False, True]
    assert current_settings() == before


def test_settings_come_back_after_an_error(restored):
    of_products()
    before = current_settings()
    with pytest.raises(ZeroDivisionError), exact_float32():
        raise ZeroDivisionError
    assert current_settings() == before
