"""The contract: every row there is. A new feature adds its rows to one of these files before it is built."""

from __future__ import annotations

from tests.kernel.contract import (
    lost,
    mdev_create,
    mdev_device,
    mdev_held,
    mdev_types,
    mig,
    mixed,
    parameters,
    pci,
    sriov,
    vendor,
)

ROWS = (
    *mdev_types.ROWS,
    *mdev_create.ROWS,
    *mdev_device.ROWS,
    *mdev_held.ROWS,
    *lost.ROWS,
    *vendor.ROWS,
    *mixed.ROWS,
    *mig.ROWS,
    *sriov.ROWS,
    *pci.ROWS,
    *parameters.ROWS,
)
