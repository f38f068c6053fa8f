# SPDX-License-Identifier: Apache-2.0
"""What others expect of a loader with a state: torchdata's StatefulDataLoader, Lightning."""
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from torch.utils.data import Dataset  # noqa: E402

import millrace as mr  # noqa: E402


class Numbers(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, i):
        return torch.full((3,), float(i)), i


def mine(shuffle=False, **options):
    return mr.torch.DataLoader(Numbers(), batch_size=4, shuffle=shuffle, num_workers=2, seed=5,
                               **options)


def real():
    return stateful.StatefulDataLoader(Numbers(), batch_size=4)


def labels(batches):
    return [y.tolist() for _, y in batches]


# ---- torchdata ---------------------------------------------------------------------------------


def one_life(make, taken, after):
    """What a program sees that takes some batches, saves, and goes on in another one."""
    first = make()
    iterator = iter(first)
    seen = labels(next(iterator) for _ in range(taken))
    state = first.state_dict()
    rest = labels(iterator)
    second = make()
    second.load_state_dict(state)
    if after == "again":  # a state of a state
        second.load_state_dict(second.state_dict())
    return seen, rest, labels(second), labels(second)


@pytest.mark.parametrize("after", ["once", "again"])
@pytest.mark.parametrize("taken", range(6))
def test_the_protocol_of_stateful_dataloader(taken, after):
    assert one_life(mine, taken, after) == one_life(real, taken, after)


def test_both_say_that_they_have_a_state():
    from torchdata.stateful_dataloader import Stateful
    assert isinstance(mine(), Stateful) and isinstance(real(), Stateful)
    with mr.dataset(Numbers()).batch(4).loader() as loader:
        assert isinstance(loader, Stateful)


def test_a_node_of_torchdata_reads_a_loader():
    """torchdata.nodes takes iterables with a state."""
    from torchdata.nodes import IterableWrapper, Loader

    def make():
        return Loader(IterableWrapper(mine(shuffle=True)))
    whole = labels(make())
    node = make()
    iterator = iter(node)
    assert labels([next(iterator), next(iterator)]) == whole[:2]
    resumed = make()
    resumed.load_state_dict(node.state_dict())
    assert labels(resumed) == whole[2:]


# ---- Lightning ---------------------------------------------------------------------------------


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(3, 1), []

    def training_step(self, batch, _):
        self.seen.append(batch[1].tolist())
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-5)


class Stop(lightning.Callback):
    """Saves after a step, as a job does that is about to be killed."""

    def __init__(self, step, path):
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True
            raise KeyboardInterrupt


def fit(tmp_path, make, epochs=3, **options):
    resume = options.pop("ckpt_path", None)
    model = Model()
    torch.manual_seed(0)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trainer.fit(model, make(), ckpt_path=resume, weights_only=False)
        except (KeyboardInterrupt, SystemExit):
            pass
    return model.seen


@pytest.mark.parametrize("step", [1, 4, 6, 8, 12])
def test_lightning_goes_on_in_the_middle_of_an_epoch(step, tmp_path):
    def make():
        return mine(shuffle=True)
    whole = fit(tmp_path, make)
    assert len(whole) == 18 and sorted(sum(whole[6:12], [])) == list(range(23))
    path = tmp_path / "saved.ckpt"
    before = fit(tmp_path, make, callbacks=[Stop(step, path)])
    after = fit(tmp_path, make, ckpt_path=path)
    assert before == whole[:step]
    assert after == whole[step:]


@pytest.mark.parametrize("step", [1, 6, 8])
def test_lightning_goes_on_with_a_pipelines_loader(step, tmp_path):
    def make():
        pipeline = mr.dataset(Numbers(), names=["x", "y"]).batch(4).seed(3)
        return pipeline.map_batch(lambda batch: (batch["x"], batch["y"])).loader(to="torch")
    whole = fit(tmp_path, make)
    path = tmp_path / "saved.ckpt"
    before = fit(tmp_path, make, callbacks=[Stop(step, path)])
    after = fit(tmp_path, make, ckpt_path=path)
    assert len(whole) == 18 and before == whole[:step] and after == whole[step:]
    assert all(sorted(sum(whole[e:e + 6], [])) == list(range(23)) for e in (0, 6, 12))


def of_torch(shuffle=False):
    return torch.utils.data.DataLoader(Numbers(), batch_size=4, shuffle=shuffle, num_workers=0)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("share", [2, 0.5])
def test_lightning_overfits_the_first_batches_as_with_torchs_loader(share, shuffle, tmp_path):
    """It makes a loader from the attributes of the one it has, with another sampler."""
    want = fit(tmp_path, lambda: of_torch(shuffle), overfit_batches=share)
    assert fit(tmp_path, lambda: mine(shuffle), overfit_batches=share) == want
    assert want[0] == [0, 1, 2, 3] and len(want) == 3 * (2 if share == 2 else 3)


@pytest.mark.parametrize("options", [
    {"workers": "threads"}, {"workers": "processes"}, {"drop_last": True}, {"collate_fn": list},
    {"rank": 0, "world": 1}, {"generator": torch.Generator().manual_seed(1)}], ids=lambda o: next(iter(o)))
def test_what_a_loader_is_made_again_from_is_there(options):
    from lightning.pytorch.utilities.data import _update_dataloader
    first = mine(True, **options)
    again = _update_dataloader(first, torch.utils.data.SequentialSampler(first.dataset))
    for name in ("dataset", "num_workers", "workers", "collate_fn", "seed", "rank", "world", "generator"):
        assert getattr(again, name) == getattr(first, name), name
    batches = [[int(y) for _, y in batch] if "collate_fn" in options else batch[1].tolist() for batch in again]
    rest = 20 if "drop_last" in options else 23
    assert sum(batches, []) == list(range(rest))


class Predicts(Model):
    def predict_step(self, batch, *_):
        return batch[1]


@pytest.mark.parametrize("shuffle", [False, True])
def test_lightning_predicts_with_numbers_of_samples(shuffle, tmp_path):
    def predict(loader):
        trainer = lightning.Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
                                    enable_model_summary=False, default_root_dir=tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [y.tolist() for y in trainer.predict(Predicts(), loader)]
    found = predict(mine(shuffle))
    assert found == labels(mine(shuffle)) and sorted(sum(found, [])) == list(range(23))
    assert found == predict(mine(shuffle, drop_last=True))
    assert shuffle or found == predict(of_torch())


def test_fabric_takes_a_drop_in():
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = fabric.setup_dataloaders(mine(True))
    assert labels(loader) == labels(mine(True))
