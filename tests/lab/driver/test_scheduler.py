"""Time slices in the driver: what is refused, what is clamped, what NVML is told, and what a boot leaves of it."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.lab.driver import scheduler
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.boards import board
from vgpumgr.lab.driver.driver import LATE_VFS, Driver
from vgpumgr.lab.driver.model import Engine, Gpu, HostState, ModuleOptions, Policy, Scheduling
from vgpumgr.lab.driver.scheduler import ARR_DEFAULT, ARR_OFF, ARR_ON, Order, Reading

PCI = "0000:41:00.0"
KEY = "9e0d0000-0000-4000-8000-00000000000a"
VM = "6a1f0000-0000-4000-8000-000000000001"
EQUAL, FIXED = Policy.EQUAL_SHARE, Policy.FIXED_SHARE
SET_AND_IDLE = Order(policy=FIXED, factor=10, frequency_hz=500)

shares = st.sampled_from([EQUAL, FIXED])
numbers = st.integers(0, 2**32 - 1) | st.integers(0, 2000)


class Card:
    """One GPU, its driver, and vGPUs on it; `profile` is what start() runs."""

    def __init__(
        self, branch: int = 570, *, code: str = "A40", counts_idle: bool = True, profile: str = "A40-4Q"
    ) -> None:
        self.gpu = Gpu(
            pci=PCI,
            uuid="GPU-0",
            board=board(code, "test"),
            framework=MDEV_VF,
            numa_node=0,
            vfs_on=True,
            first_group=20,
            first_vfio=0,
            schedulers=dict.fromkeys(scheduler.engines(board(code, "test")), Scheduling()),
        )
        self.profile = profile
        self.driver = Driver(
            HostState(
                name="h",
                driver_version=f"{branch}.1.2",
                machine_id="0" * 32,
                boot_id="b",
                gpus=[self.gpu],
                scheduler_counts_idle=counts_idle,
            )
        )

    def make(self) -> None:
        kind = next(kind for kind in self.gpu.board.types if kind.name.endswith(self.profile))
        self.driver.create_mdev(vf_pci(self.gpu, 0), kind.id, KEY)

    def start(self) -> None:
        self.make()
        self.driver.hold(KEY, VM, "vm01")

    def set(self, order: Order) -> str | None:
        """The errno's name of a refusal, or None."""
        try:
            self.driver.set_scheduler(PCI, order)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return None

    def read(self, engine: Engine = Engine.GRAPHICS) -> Reading:
        return scheduler.reading(self.gpu, engine)


def told(order: Order, branch: int = 570, *, profile: str = "A40-4Q") -> Reading:
    """What is read with a VM running after that order was taken."""
    card = Card(branch, profile=profile)
    assert card.set(order) is None
    card.start()
    return card.read()


def clamped(number: int, low: int, high: int) -> int:
    return sorted((low, number, high))[1]


@settings(deadline=None)
@given(policy=shares, factor=numbers.filter(bool), frequency=numbers.filter(bool), arr=st.sampled_from([0, ARR_ON]))
def test_frequency_and_factor_beyond_the_caps_become_the_nearest_that_is_not(
    policy: Policy, factor: int, frequency: int, arr: int
) -> None:
    seen = told(Order(policy=policy, arr=arr, factor=factor, frequency_hz=frequency))
    slice_ns = 10**9 // clamped(frequency, 63, 960)
    assert seen == Reading(policy=policy, arr=ARR_ON, factor=clamped(factor, 1, 60), time_slice_ns=slice_ns)


@settings(deadline=None)
@given(policy=shares, time_slice_ns=numbers.filter(bool) | st.integers(1, 60_000_000))
def test_a_slice_beyond_the_caps_becomes_the_nearest_that_is_not(policy: Policy, time_slice_ns: int) -> None:
    seen = told(Order(policy=policy, arr=ARR_OFF, time_slice_ns=time_slice_ns))
    assert seen == Reading(policy=policy, arr=ARR_OFF, time_slice_ns=clamped(time_slice_ns, 1_000_000, 30_000_000))


@pytest.mark.parametrize(
    ("profile", "arr", "slice_ns", "factor"),
    [
        ("A40-4Q", ARR_DEFAULT, 10**9 // 960, 33),  # 12 of them per GPU
        ("A40-4Q", ARR_OFF, 1_000_000, 0),
        ("A40-6Q", ARR_DEFAULT, 2_083_333, 33),  # 8
        ("A40-6Q", ARR_OFF, 2_000_000, 0),
    ],
)
def test_zero_asks_for_the_default_of_the_running_type_s_density(
    profile: str, arr: int, slice_ns: int, factor: int
) -> None:
    seen = told(Order(policy=EQUAL, arr=arr), profile=profile)
    assert (seen.time_slice_ns, seen.factor) == (slice_ns, factor)


@pytest.mark.parametrize(
    ("counts_idle", "while_made", "while_held"), [(True, "ENOTSUP", "ENOTSUP"), (False, None, "ENOTSUP")]
)
def test_a_vgpu_in_the_way_refuses_the_order_by_either_reading(
    counts_idle: bool, while_made: str | None, while_held: str
) -> None:
    card = Card(counts_idle=counts_idle)
    card.make()
    assert card.set(SET_AND_IDLE) == while_made
    assert (card.read().policy is FIXED) == (while_made is None)
    card.driver.hold(KEY, VM, "vm01")
    assert card.set(Order(policy=EQUAL)) == while_held
    assert card.read().policy is not EQUAL
    card.driver.release(VM)
    card.driver.remove_mdev(KEY)
    assert card.set(Order(policy=EQUAL)) is None


@settings(deadline=None)
@given(
    counts_idle=st.booleans(), order=st.builds(Order, policy=st.integers(0, 9), arr=st.integers(0, 3), factor=numbers)
)
def test_a_refused_order_changes_nothing_and_an_accepted_one_sets_its_policy_on_every_engine(
    counts_idle: bool, order: Order
) -> None:
    card = Card(counts_idle=counts_idle)
    before = dict(card.gpu.schedulers)
    revision = card.driver.revision
    if card.set(order) is None:
        assert {card.read(engine).policy for engine in Engine} == {order.policy}
        assert card.driver.revision > revision
    else:
        assert (card.gpu.schedulers, card.driver.revision) == (before, revision)


def test_an_unknown_policy_and_mig_are_not_supported_and_an_unknown_gpu_is_not_there() -> None:
    card = Card()
    assert [card.set(Order(policy=policy)) for policy in (0, 4)] == ["ENOTSUP"] * 2
    card.gpu.mig_on = True
    assert card.set(Order(policy=EQUAL)) == "ENOTSUP"
    with pytest.raises(OSError) as caught:
        card.driver.set_scheduler("0000:99:00.0", Order(policy=EQUAL))
    assert caught.value.errno == errno.ENODEV


def test_an_idle_gpu_tells_its_policy_and_no_slice_and_so_does_best_effort_always() -> None:
    card = Card()
    assert card.set(SET_AND_IDLE) is None
    assert card.read() == Reading(policy=FIXED)
    card.make()
    assert card.read() == Reading(policy=FIXED), "a vGPU that no VM holds is not active"
    card.driver.hold(KEY, VM, "vm01")
    assert card.read() == Reading(policy=FIXED, arr=ARR_ON, factor=10, time_slice_ns=2_000_000)
    assert told(Order(policy=Policy.BEST_EFFORT, factor=10, frequency_hz=500)) == Reading(policy=Policy.BEST_EFFORT)


def test_r595_refuses_to_turn_adaptive_round_robin_off_and_takes_the_rest_of_the_old_call() -> None:
    card = Card(595)
    assert card.set(Order(policy=EQUAL, arr=ARR_OFF, time_slice_ns=2_000_000)) == "ENOTSUP"
    assert card.set(Order(policy=EQUAL, frequency_hz=500)) is None
    assert card.set(Order(policy=FIXED, engine=Engine.NVENC0)) is None
    assert {engine: card.read(engine).policy for engine in Engine} == {
        Engine.GRAPHICS: EQUAL,
        Engine.NVENC1: EQUAL,
        Engine.NVENC0: FIXED,
    }
    assert card.set(Order(policy=EQUAL, engine=7)) == "EINVAL"


def test_a_compute_board_has_no_encoders_to_schedule() -> None:
    card = Card(595, code="H100", profile="H100-10C")
    assert card.set(Order(policy=EQUAL, engine=Engine.NVENC1)) == "ENOTSUP"
    assert card.set(Order(policy=EQUAL)) is None
    assert list(card.gpu.schedulers) == [Engine.GRAPHICS]


# what the module is loaded with


@pytest.mark.parametrize(
    ("word", "branch", "expected"),
    [
        (0x00, 570, Scheduling()),
        (0x01, 570, Scheduling(policy=EQUAL, arr=True)),
        (0x11, 570, Scheduling(policy=FIXED, arr=True)),
        (0x10, 570, Scheduling()),  # without bit 0 there is no software scheduler
        (0x00050013, 570, Scheduling(policy=FIXED, time_slice_ns=5_000_000)),
        (0x00FF0003, 570, Scheduling(policy=EQUAL, time_slice_ns=30_000_000)),
        (0x211E0001, 570, Scheduling(policy=EQUAL, arr=True, factor=33, frequency_hz=480)),
        (0xFFFFF011, 570, Scheduling(policy=FIXED, arr=True, factor=60, frequency_hz=960)),
        (0x00050013, 595, Scheduling(policy=FIXED, arr=True, frequency_hz=80)),  # bit 1 means nothing: a frequency
        (0x00050011, 510, Scheduling(policy=FIXED, time_slice_ns=5_000_000)),  # before ARR: a slice
        (0x21, 570, Scheduling()),
    ],
)
def test_rmpvmrl_is_read_bit_by_bit(word: int, branch: int, expected: Scheduling) -> None:
    assert scheduler.decode(word, branch=branch) == expected


@settings(deadline=None)
@given(policy=shares, factor=st.integers(1, 60), frequency=st.integers(63, 960))
def test_rmpvmrl_and_the_run_time_order_of_the_same_meaning_are_one_state(
    policy: Policy, factor: int, frequency: int
) -> None:
    card = Card()
    assert card.set(Order(policy=policy, factor=factor, frequency_hz=frequency)) is None
    word = factor << 24 | frequency << 12 | (policy is FIXED) << 4 | 1
    assert scheduler.decode(word, branch=570) == card.gpu.schedulers[Engine.GRAPHICS]


def test_a_boot_forgets_the_run_time_setting_and_takes_the_module_s() -> None:
    card = Card()
    assert card.set(SET_AND_IDLE) is None
    card.driver.reboot("boot-2")
    assert card.read().policy is Policy.BEST_EFFORT
    card.driver.load_module(ModuleOptions(registry_dwords="RmPVMRL=0x01;RmNvencPVMRL=0x11"))
    assert [card.read(engine).policy for engine in (Engine.GRAPHICS, Engine.NVENC0)] == [EQUAL, FIXED]
    assert card.set(SET_AND_IDLE) is None
    card.driver.reboot("boot-3")
    assert card.read().policy is EQUAL


def test_vfs_that_come_late_take_the_run_time_setting_away() -> None:
    card = Card()
    card.driver.set_fault(LATE_VFS)
    card.driver.reboot("boot-2")
    assert card.set(SET_AND_IDLE) is None
    card.driver.enable_vfs()
    assert card.read().policy is Policy.BEST_EFFORT


@pytest.mark.parametrize(
    ("for_all", "per_device", "policy"),
    [
        ("RmPVMRL=0x01", "", EQUAL),
        ("Other=1;RmPVMRL=17", "", FIXED),
        ("RmPVMRL=0x01;RmPVMRL=0x11", "", FIXED),
        ("RmPVMRL=many", "", Policy.BEST_EFFORT),
        ("RmPVMRL=0x01", f"pci={PCI};RmPVMRL=0x11", FIXED),
        ("RmPVMRL=0x01", f"pci={PCI};RmPVMRL=0x00", Policy.BEST_EFFORT),
        ("RmPVMRL=0x01", "pci=0000:81:00.0;RmPVMRL=0x11", EQUAL),
        ("", f"pci=0000:81:00.0;RmPVMRL=0x01;pci={PCI};Other=1;RmPVMRL=0x11", FIXED),
    ],
)
def test_a_device_s_own_words_count_before_those_for_all(for_all: str, per_device: str, policy: Policy) -> None:
    card = Card()
    card.driver.load_module(ModuleOptions(registry_dwords=for_all, registry_dwords_per_device=per_device))
    assert card.read().policy is policy
