"""The steps of a plan: verb + noun, each a value that knows its inverse and its record. Each file has one family."""

from vgpumgr.core.step.base import *
from vgpumgr.core.step.definition import *
from vgpumgr.core.step.gpu import *
from vgpumgr.core.step.host import *
from vgpumgr.core.step.vgpu import *

HostStep = VgpuStep | InstanceStep | GpuStep | MigStep | OfHost
Step = HostStep | DefinitionStep
