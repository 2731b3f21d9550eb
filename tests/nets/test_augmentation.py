"""The mark of layers that augment; random crops and flips, image by image."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import Augmentation, RandomCropFlip, SmallCNN
from tests.nets.images import N_CLASSES, fit_federation


class Twice(Augmentation):
    def forward(self, X):
        return 2 * X if self.training else X


def test_a_layer_of_this_kind_can_be_found_and_switched():
    net = nn.Sequential(Twice(), nn.Identity())
    assert [isinstance(layer, Augmentation) for layer in net] == [True, False]
    x = torch.ones(1)
    assert net(x).item() == 2
    assert net.eval()(x).item() == 1


def numbered(n, channels=2, height=3, width=5):
    """Images whose pixels all differ, none of them 0."""
    return 1 + torch.arange(n * channels * height * width, dtype=torch.float64).reshape(
        n, channels, height, width
    )


def versions(image, padding, flip=True, fill=0.0):
    """Every shifted version of one image, written pixel by pixel; the mirrored ones after the others."""
    channels, height, width = image.shape
    whole = torch.full((channels, height + 2 * padding, width + 2 * padding), fill, dtype=image.dtype)
    whole[:, padding : padding + height, padding : padding + width] = image
    steps = range(2 * padding + 1)
    shifted = [whole[:, i : i + height, j : j + width] for i in steps for j in steps]
    return shifted + [version.flip(2) for version in shifted] if flip else shifted


def places(X, out, padding, flip=True, fill=0.0):
    """For each image the number of the one version of itself that it became."""
    found = []
    for image, result in zip(X, out, strict=True):
        equal = [
            k
            for k, version in enumerate(versions(image, padding, flip, fill))
            if torch.equal(version, result)
        ]
        assert len(equal) == 1
        found += equal
    return found


@pytest.mark.parametrize(("padding", "flip"), [(2, True), (1, False), (0, True), (0, False)])
def test_each_image_becomes_one_version_of_itself(padding, flip):
    torch.manual_seed(0)
    X = numbered(60)
    found = places(X, RandomCropFlip(padding, flip)(X), padding, flip)
    assert len(set(found)) > 0.6 * min(60, (2 * padding + 1) ** 2 * (1 + flip))


def test_every_version_is_as_likely():
    torch.manual_seed(0)
    X = numbered(3000)
    counts = np.bincount(places(X, RandomCropFlip(1)(X), 1), minlength=18)
    assert len(counts) == 18
    assert chisquare(counts).pvalue > 0.001


def test_images_of_one_batch_move_on_their_own_and_channels_together():
    torch.manual_seed(0)
    X = numbered(1, height=8, width=8).expand(40, -1, -1, -1)
    out = RandomCropFlip()(X)
    assert len(torch.unique(out, dim=0)) > 30
    torch.testing.assert_close(
        out[:, 1] - out[:, 0], 64.0 * (out[:, 0] > 0), rtol=0, atol=0, check_dtype=False
    )


def test_the_frame_is_filled():
    torch.manual_seed(0)
    X = numbered(30)
    found = places(X, RandomCropFlip(2, fill=-7.0)(X), 2, fill=-7.0)
    assert len(set(found)) > 15


def test_in_evaluation_mode_it_is_the_identity_and_draws_nothing():
    X, before = numbered(4), torch.get_rng_state()
    assert RandomCropFlip().eval()(X) is X
    assert torch.equal(torch.get_rng_state(), before)


def test_one_seed_one_result_and_the_input_stays():
    X, layer = numbered(20), RandomCropFlip()
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(layer(X))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(X, numbered(20))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_dtype_and_memory_layout_stay(dtype):
    X = numbered(2, channels=3).to(dtype)
    for batch in (X, X.contiguous(memory_format=torch.channels_last)):
        out = RandomCropFlip(1)(batch)
        assert (out.dtype, out.stride()) == (dtype, batch.stride())


def test_a_batch_of_no_images():
    assert RandomCropFlip()(torch.zeros(0, 3, 8, 8)).shape == (0, 3, 8, 8)


@pytest.mark.parametrize("padding", [-1, 1.5, True, None])
def test_bad_padding(padding):
    with pytest.raises(NetError, match=f"padding must be a whole number of pixels >= 0, got {padding}"):
        RandomCropFlip(padding)


def test_padding_may_come_from_an_array():
    assert RandomCropFlip(*np.arange(1, 2))(torch.zeros(2, 1, 3, 3)).shape == (2, 1, 3, 3)


@pytest.mark.parametrize("training", [True, False])
def test_no_images(training):
    with pytest.raises(NetError, match=r"takes images of shape .* got \(2, 784\). Reshape X"):
        RandomCropFlip().train(training)(torch.zeros(2, 784))


class Augmented(nn.Sequential):
    """A small net behind random crops and flips."""

    def __init__(self, padding=2, channels=1):
        shape = (channels, 12, 12)
        super().__init__(RandomCropFlip(padding), SmallCNN(shape, N_CLASSES, widths=(4,), hidden=8))


def test_a_federation_augments_and_results_do_not_depend_on_workers():
    shape, settings = (3, 12, 12), {"module__channels": 3}
    alone, X, _ = fit_federation(Augmented, shape, engine="auto", **settings)
    assert alone.engine_.startswith("loop")
    proba = alone.predict_proba(X)
    np.testing.assert_array_equal(proba, alone.predict_proba(X))  # which augments nothing
    together, _, _ = fit_federation(Augmented, shape, n_jobs=2, **settings)
    np.testing.assert_array_equal(proba, together.predict_proba(X))
    still, _, _ = fit_federation(Augmented, shape, module__padding=0, **settings)
    assert not np.allclose(proba, still.predict_proba(X))


def test_the_stacked_engine_refuses_it():
    with pytest.raises(NetError, match="depends on the other rows of the batch, or on chance"):
        fit_federation(Augmented, (1, 12, 12), engine="stacked")


def test_posteriors_for_relabeling_are_augmented_where_asked():
    passes = {"passes": 3, "augment": True, "mode": "eval"}
    fits = [fit_federation(Augmented, (1, 12, 12), relabel_posteriors=p)[0] for p in (None, passes, passes)]
    plain, augmented, again = (fed.relabeled_mask_ for fed in fits)
    np.testing.assert_array_equal(augmented, again)
    assert (plain != augmented).any()
