"""Creates the model of a released config in transformers, without memory for its weights."""

import contextlib
import copy
import importlib
import inspect

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedModel
from transformers.initialization import no_init_weights

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

# Keys that a class requires but that have no effect on position.
FILLED = {"esm": {"vocab_size": 33}}


class NotInTransformers(Exception):
    pass


class Refused(Exception):
    """transformers has the model type, but raises an error for this config."""


class WeightsOnMeta(TorchFunctionMode):
    """Allocates no memory for weights, only for small computed tensors such as inv_freq."""

    WEIGHTS = {torch.empty, torch.randn, torch.rand, torch.normal}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in self.WEIGHTS:
            kwargs["device"] = "meta"
        elif func in (torch.zeros, torch.ones):
            tensor = func(*args, **{**kwargs, "device": "meta"})
            if tensor.numel() > 1 << 20:
                return tensor
        return func(*args, **kwargs)


def config_of(sample):
    """Returns the config of the file or its part, or of its language model if it has one."""
    keys = copy.deepcopy(sample["config"])  # classes write into the dictionaries they are given
    kind = keys.pop("model_type")
    if kind not in CONFIG_MAPPING:
        raise NotInTransformers(kind)
    try:
        config = CONFIG_MAPPING[kind].from_dict({**FILLED.get(kind, {}), **keys})
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    if sample.get("part"):
        return getattr(config, sample["part"])
    if hasattr(config, "text_config") or hasattr(config, "thinker_config"):
        return config.get_text_config(decoder=True)
    return config


def modeling(config):
    package, name = type(config).__module__.rsplit(".", 1)
    try:
        return importlib.import_module(
            package + "." + name.replace("configuration_", "modeling_"))
    except ModuleNotFoundError:  # exaone and others are a Llama
        return importlib.import_module(MODEL_MAPPING[type(config)].__module__)


def classes_of(config):
    """Model classes for a config: AutoModel's, whole models, parts of models. A base class, which
    has no modules, only where there is no other."""
    found = []
    if type(config) in MODEL_MAPPING:
        try:
            mapped = MODEL_MAPPING[type(config)]
        except ValueError:  # names a class that does not exist: voxtral_realtime_text
            mapped = ()
        found += mapped if isinstance(mapped, (tuple, list)) else [mapped]
    ours = [one for one in vars(modeling(config)).values()
            if inspect.isclass(one) and issubclass(one, PreTrainedModel)
            and getattr(one, "config_class", None) is type(config) and one not in found]
    whole = [one for one in ours if not one.__name__.endswith("PreTrainedModel")]
    rank = lambda one: (not one.__name__.endswith("Model"), one.__name__.endswith("Stack"))
    return found + sorted(whole, key=rank) or ours


@contextlib.contextmanager
def without_backbones(module):
    """DETR's convolutional backbone comes from timm and has no effect on position."""
    names = [name for name in ("DetrConvEncoder", "TableTransformerConvEncoder")
             if hasattr(module, name)]
    kept = {name: getattr(module, name) for name in names}

    class Backbone(torch.nn.Module):
        def __init__(self, *_, **__):
            super().__init__()
            self.intermediate_channel_sizes = [8]

    for name in names:
        setattr(module, name, Backbone)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(module, name, value)


def model_of(config):
    last = None
    for one in classes_of(config):
        try:
            with without_backbones(modeling(config)), no_init_weights(), WeightsOnMeta():
                return one._from_config(config)
        except Exception as error:  # classes for other tasks may need more keys
            last = last or error
    raise Refused(f"{type(last).__name__}: {last}")


def real(make):
    """Returns the module with memory. For a single small module only."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().eval()

