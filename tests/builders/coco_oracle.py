"""Areas and lists of CoComageNet computed a second time: plain loops over pycocotools's class, without our code."""

from pycocotools import mask
from pycocotools.coco import COCO

# Table 3 of the paper.
SHARED = {
    24: "zebra",
    27: "backpack",
    28: "umbrella",
    35: "skis",
    38: "kite",
    47: "cup",
    52: "banana",
    55: "orange",
    56: "broccoli",
    59: "pizza",
    73: "laptop",
    74: "mouse",
    75: "remote",
    78: "microwave",
    80: "toaster",
    82: "refrigerator",
    86: "vase",
}
PERSON = 1


def read(path):
    return COCO(str(path))


def portions(coco):
    """The part of each image that each of the 17 categories covers: {image: {name: part}}."""
    areas_of = {}
    for image in coco.dataset["images"]:
        shape = (image["height"], image["width"])
        by_category = {}
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]])):
            by_category.setdefault(annotation["category_id"], []).append(coco.annToMask(annotation).astype(bool))
        areas_of[image["id"]] = {
            SHARED[category]: sum(masks[1:], masks[0]).sum() / (shape[0] * shape[1])
            for category, masks in by_category.items()
            if category in SHARED
        }
    return areas_of


def cocomagenet(coco, count):
    """Section 2.5: images with two of the classes, by the second-largest."""
    two = {image: sorted(parts.values())[-2] for image, parts in portions(coco).items() if len(parts) >= 2}
    return sorted(two, key=lambda image: (-two[image], image))[:count]


def mono(coco, most, one_more):
    """Appendix A: images of one class alone, people aside; at most `most` of a class, one more of `one_more`."""
    parts = portions(coco)
    by_class = {}
    for image in coco.dataset["images"]:
        annotations = coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]]))
        categories = {annotation["category_id"] for annotation in annotations} - {PERSON}
        if len(categories) == 1 and (category := categories.pop()) in SHARED:
            by_class.setdefault(SHARED[category], []).append(image["id"])
    chosen = {}
    for name, images in by_class.items():
        images.sort(key=lambda image: (-parts[image][name], image))
        chosen[name] = images[: most + (name in one_more)]
    return chosen


def merged_area(polygons, height, width):
    """Pixels of a union, from each polygon's own pixels."""
    masks = [mask.decode(mask.frPyObjects([polygon], height, width)[0]).astype(bool) for polygon in polygons]
    return int(sum(masks[1:], masks[0]).sum())
