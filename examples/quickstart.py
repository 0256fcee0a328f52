"""From a release to a table of figures in a few seconds, on real digits.

    $ pip install -e '.[evaluate]' && python examples/quickstart.py
    role                far_ood                         near_ood
    split         far_ood_noise far_ood_textures   mean near_ood
    detector
    energy                0.745            0.083  0.414    0.972
    highest_logit         0.776            0.084  0.430    0.971
    knn                   0.994            0.937  0.965    0.968
    msp                   0.852            0.105  0.479    0.965

An AUROC is 1 where every unknown image scores above every known one, and 0.5 by chance.
"""

from pathlib import Path

from digits_cnn import train
from digits_release import write_release

import unknown_detection as ud


def highest_logit(features):
    """A detector of your own: one score per image, higher = more unknown."""
    return -features.logits.max(axis=1)


build = Path("build")

# A release: images in splits with roles. Yours is a folder that you built, or ORG/NAME on the Hub.
release = ud.load(write_release(build / "digits"))

# A model: any torch module. This one learns the known classes' training images in seconds.
model = train(release)

# One pass over the images feeds all detectors; what is in the folder already is not computed again.
features = ud.extract(model, release, "digits,digits-train", cache=build / "digits-features")

# A detector is a name, an instance with hyperparameters, or a function.
scores = ud.score(features, ["msp", "energy", ud.detectors.KNN(k=5), highest_logit])

# A line for each detector and split of unknown images: AUROC, FPR95 and more.
figures = ud.evaluate(scores, release)
print(figures.pivot_table("AUROC", "detector", ["role", "split"]).round(3))
