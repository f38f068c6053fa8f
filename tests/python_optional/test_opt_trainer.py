# SPDX-License-Identifier: Apache-2.0
"""Hugging Face: Trainer and accelerate with our loaders, in one process."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from torch.utils.data import DataLoader  # noqa: E402

import millrace as mr  # noqa: E402

N = 23
ROWS = [{"x": torch.full((3,), float(i)), "labels": i} for i in range(N)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(3, 1), []

    def forward(self, x, labels):
        self.seen.append(labels.tolist())
        return {"loss": self.layer(x).square().mean(), "logits": labels}


def loader(kind, training):
    if kind == "torch":
        return DataLoader(ROWS, batch_size=4, shuffle=training)
    if kind == "drop_in":
        return mr.torch.DataLoader(ROWS, batch_size=4, shuffle=training, seed=1)
    pipeline = mr.dataset(ROWS).batch(4).shuffle(training)
    return pipeline.map_batch(dict).loader(seed=1, to="torch")


class Trainer(transformers.Trainer):
    kind = "torch"

    def get_train_dataloader(self):
        return loader(self.kind, True)

    def get_eval_dataloader(self, eval_dataset=None):
        return loader(self.kind, False)


def trainer(kind, folder, **options):
    arguments = transformers.TrainingArguments(
        str(folder), num_train_epochs=3, use_cpu=True, report_to=[], disable_tqdm=True,
        logging_strategy="no", **{"save_strategy": "no", **options})
    model = Model()
    made = Trainer(model=model, args=arguments)
    made.kind = kind
    return made, model


def epochs(batches):
    return [sorted(sum(batches[i:i + 6], [])) for i in range(0, len(batches), 6)]


@pytest.mark.parametrize("kind", ["torch", "drop_in", "native"])
def test_trainer_trains_and_evaluates(kind, tmp_path):
    made, model = trainer(kind, tmp_path)
    result = made.train()
    assert result.global_step == 18 and epochs(model.seen) == 3 * [list(range(N))]
    assert model.seen[:6] != model.seen[6:12]
    model.seen.clear()
    for _ in range(2):
        made.evaluate()
        assert sum(model.seen, []) == list(range(N))
        model.seen.clear()


@pytest.mark.parametrize("kind", ["drop_in"])
@pytest.mark.parametrize("step", [4, 8])
def test_trainer_resumes_in_the_middle_of_an_epoch(kind, step, tmp_path):
    """It builds a loader of its own for the rest of that epoch, from the attributes of ours."""
    made, model = trainer(kind, tmp_path, save_strategy="steps", save_steps=step)
    made.train()
    whole = model.seen
    again, other = trainer(kind, tmp_path)
    again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert other.seen == whole[step:]


@pytest.mark.parametrize("step", [4, 8])
def test_a_pipelines_loader_resumes_by_its_own_state(step, tmp_path):
    """As docs/python.md has it: ignore_data_skip=True, and the state is loaded by the program."""
    class Kept(transformers.TrainerCallback):
        def on_save(self, args, state, control, **more):
            torch.save(one.state_dict(), tmp_path / f"loader-{state.global_step}.pt")

    def trainer_of(loader, **options):
        made, model = trainer("native", tmp_path, ignore_data_skip=True, **options)
        made.get_train_dataloader = lambda: loader
        return made, model
    one, two = loader("native", True), loader("native", True)
    made, model = trainer_of(one, save_strategy="steps", save_steps=step)
    made.add_callback(Kept())
    made.train()
    whole = model.seen
    assert epochs(whole) == 3 * [list(range(N))]
    two.load_state_dict(torch.load(tmp_path / f"loader-{step}.pt", weights_only=False))
    again, other = trainer_of(two)
    again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert other.seen[:len(whole) - step] == whole[step:]
    assert again.state.global_step == 18


@pytest.mark.parametrize("kind", ["drop_in", "native"])
def test_accelerate_takes_loaders_as_they_are(kind):
    import accelerate
    from accelerate.data_loader import prepare_data_loader, skip_first_batches
    accelerator = accelerate.Accelerator(cpu=True)
    whole = [batch["labels"].tolist() for batch in loader(kind, True)]
    prepared = accelerator.prepare(loader(kind, True))
    assert [batch["labels"].tolist() for batch in prepared] == whole
    if kind == "drop_in":
        rebuilt = prepare_data_loader(loader(kind, True), put_on_device=False)
        assert [batch["labels"].tolist() for batch in rebuilt] == whole
        rest = skip_first_batches(loader(kind, True), 2)
        assert [batch["labels"].tolist() for batch in rest] == whole[2:]
