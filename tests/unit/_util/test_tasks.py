import asyncio
import gc

from toolcrib._util.tasks import TaskSet


async def test_a_task_is_kept_until_it_ends():
    tasks, ended = TaskSet(), []
    gate = asyncio.Event()

    async def work():
        await gate.wait()
        ended.append(True)

    tasks.create(work())
    gc.collect()
    await asyncio.sleep(0)
    assert len(tasks) == 1 and not ended
    gate.set()
    await tasks.wait()
    assert ended and len(tasks) == 0


async def test_waiting_covers_tasks_that_are_created_meanwhile():
    tasks, ended = TaskSet(), []

    async def second():
        await asyncio.sleep(0)
        ended.append("second")

    async def first():
        tasks.create(second())

    tasks.create(first())
    await tasks.wait()
    assert ended == ["second"]


async def test_cancelling_cancels_every_task_and_waiting_raises_none_of_their_errors():
    tasks = TaskSet()

    async def fail():
        raise ValueError("ours to look at")

    failing = tasks.create(fail())
    waiting = tasks.create(asyncio.sleep(60), name="sleeper")
    assert waiting.get_name() == "sleeper" and set(tasks) == {failing, waiting}
    await asyncio.sleep(0)
    tasks.cancel()
    await tasks.wait()
    assert waiting.cancelled() and isinstance(failing.exception(), ValueError)


async def test_a_task_that_was_created_elsewhere_can_be_added():
    tasks = TaskSet()
    task = asyncio.create_task(asyncio.sleep(0))
    tasks.add(task)
    await tasks.wait()
    assert task.done()
