"""
Training on a cluster
=====================

:class:`~sklstruct.distributed.DaskLanguageModel` trains a language model on the workers
of a Dask cluster. Here the cluster consists of two workers on this machine. With a
``Client("tcp://scheduler:8786")`` the rest of the program is the same.
"""

import dask.bag
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.distributed import DaskLanguageModel
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import AutoSolver

sentences = load_python_topics(drop_repeated=True)[:1500]
solver = AutoSolver(tol=1e-3)
estimator = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9, solver=solver)

# In your own program ``Client()`` is enough. Here the workers are threads, so that this
# page is built in seconds.
cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
client = Client(cluster)

# %%
# The text is a bag of sentences in partitions. ``dask.bag.read_text`` makes such a bag
# from files. The workers count the partitions. Then the contexts that end in the same
# symbol are collected in one of four parts, which are called shards.

text = dask.bag.from_sequence(sentences, npartitions=4)
trainer = DaskLanguageModel(LanguageModel(estimator, max_depth=3), n_shards=4).fit(text)
for _, contexts, pairs in trainer.shard_sizes_:
    print(f"{contexts:6} contexts, {pairs:6} pairs")

# %%
# ``compute`` copies the model to this process. The solver takes the same steps on all
# shards, so the objective falls as in a fit in one process:

model = trainer.compute()
one = LanguageModel(estimator, max_depth=3).fit(sentences)
difference = np.abs(model.estimator_.coef_ - one.estimator_.coef_).max()
print(f"largest difference of a weight: {difference:.1e}")

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
best = one.estimator_.objective_[-1]
ax.plot(one.estimator_.objective_, lw=5, alpha=0.4, label="one process")
ax.plot(model.estimator_.objective_, "k.-", label="four shards on two workers")
ax.set(xlabel="iteration", ylabel="objective", title="Objective of the fit")
ax.legend()
plt.show()

# %%
# The shards exchange sums of one number per class. The number of these sums does not
# depend on the number of contexts:

n_iterations = model.estimator_.n_iter_
exchanged = trainer.n_bytes_exchanged_ / n_iterations / len(trainer.shard_sizes_)
print(f"{model.vocabulary_.size} classes, {model.backoff_model_.n_pairs} pairs")
print(f"{exchanged / 1024:.0f} KiB per iteration to and from a shard")

client.close()
cluster.close()
