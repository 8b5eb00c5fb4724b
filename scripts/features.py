"""Writes docs/features.md: what a core Ray program expects, its names there and here, and the test that shows it.

    python scripts/features.py            write the page
    python scripts/features.py --check    say whether it is as it would be written
"""
from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "features.md"
HEAD = """# What there is of Ray's core

Written by `scripts/features.py`. *must*: a notebook is broken without it; *should*: expected soon; *could*: nice to
have. The test is below `tests/`; without one, the last column says why the feature is not there.

"""

# section -> rows: feature, priority, Ray's name, ours, test (file::function) or, after "-", a reason
FEATURES: dict[str, list[tuple[str, str, str, str, str]]] = {
    "Tasks": [
        ("A session starts, ends and starts again", "must", "init, shutdown, is_initialized", "the same",
         "runtime/test_tasks.py::functions_outlive_sessions"),
        ("The first use starts it", "must", "auto-init", "the same",
         "runtime/test_lifecycle.py::the_first_use_starts_a_session"),
        ("What init returns", "should", "RayContext", "Context", "runtime/test_lifecycle.py::the_context"),
        ("Functions become remote", "must", "remote", "the same",
         "runtime/test_bad_input.py::calling_a_remote_function"),
        ("Arguments of any shape", "must", "f.remote()", "the same", "runtime/test_tasks.py::arguments_of_every_shape"),
        ("Wrong arguments fail at the call", "must", "f.remote()", "the same",
         "runtime/test_bad_input.py::wrong_arguments_of_a_task"),
        ("Refs are dependencies; inside containers they stay refs", "must", "f.remote(ref)", "the same",
         "runtime/test_tasks.py::refs_are_dependencies_at_the_top_and_refs_inside"),
        ("Tasks make tasks", "must", "f.remote() in a task", "the same",
         "runtime/test_tasks.py::results_can_hold_refs"),
        ("Recursion of any depth on one CPU", "must", "", "the same",
         "runtime/test_tasks.py::recursion_on_one_cpu_does_not_deadlock"),
        ("Several returns, none", "must", "num_returns", "the same", "runtime/test_tasks.py::several_returns"),
        ("get fails fast and keeps its timeout", "must", "get", "the same",
         "runtime/test_errors.py::a_list_fails_fast"),
        ("wait", "must", "wait", "the same",
         "runtime/test_objects.py::wait_keeps_the_order_and_returns_at_most_what_was_asked"),
        ("cancel: waiting, running, children, forced", "must", "cancel", "the same",
         "runtime/test_tasks.py::cancel_reaches_children"),
        ("Options everywhere, wrong ones are named", "must", "options", "the same",
         "runtime/test_bad_input.py::wrong_options"),
        ("A cell run again has its new code", "must", "", "the same",
         "runtime/test_tasks.py::redefinition_runs_the_new_code_and_old_refs_resolve"),
        ("Code by value, mutual recursion", "must", "", "the same", "runtime/test_tasks.py::mutual_recursion"),
        ("A large closure is named", "should", "", "LargeClosureWarning",
         "runtime/test_bad_input.py::a_large_closure_is_told_by_its_variable"),
        ("A worker leaves after n calls", "should", "max_calls", "the same",
         "runtime/test_actor_options.py::max_calls_gives_a_fresh_worker"),
        ("Where the caller runs", "should", "get_runtime_context", "the same",
         "runtime/test_actors.py::the_runtime_context"),
        ("Documentation and signature survive", "should", "remote", "the same",
         "runtime/test_tasks.py::the_decorator_keeps_name_doc_and_signature"),
    ],
    "Objects": [
        ("Arrays without a copy, read-only", "must", "get", "the same",
         "runtime/test_objects.py::arrays_are_read_only_views_without_a_copy"),
        ("pandas, Arrow and polars without a copy", "must", "get", "the same",
         "runtime/test_objects.py::arrow_and_pandas_come_without_a_copy"),
        ("Freed with the last ref", "must", "ObjectRef", "the same",
         "runtime/test_objects.py::memory_is_freed_with_the_last_ref"),
        ("Refs inside objects count", "must", "ObjectRef", "the same",
         "runtime/test_objects.py::refs_inside_objects_count"),
        ("Names of the notebook that hold objects, Out[] too", "must", "", "state.memory",
         "runtime/test_looking.py::memory_names_the_variables"),
        ("Needs no /dev/shm", "must", "", "the same", "runtime/test_lifecycle.py::nothing_is_left"),
        ("Moved to disk when the store is full", "should", "spilling", "offload_dir",
         "runtime/test_offload.py::five_times_the_store_comes_back_right"),
        ("What holds memory is named", "must", "ray memory", "state.memory, cellmesh memory",
         "runtime/test_looking.py::memory_names_what_was_fetched"),
        ("A full store waits, then says who fills it", "should", "ObjectStoreFullError", "the same",
         "runtime/test_objects.py::a_full_store_names_what_fills_it"),
        ("Nothing is left", "must", "", "the same", "scheduler/test_node.py::a_killed_driver_leaves_nothing"),
        ("Serializers for a class", "should", "util.register_serializer", "the same",
         "runtime/test_libraries.py::serializers_work_on_both_sides"),
        ("What cannot be pickled is named", "should", "util.inspect_serializability", "the same",
         "runtime/test_bad_input.py::inspect_serializability_is_public"),
        ("Ids, futures, await", "must", "hex, future, await", "the same", "runtime/test_async.py::futures"),
    ],
    "Actors and generators": [
        ("State, and calls in order", "must", "remote class", "the same",
         "runtime/test_actors.py::state_persists_and_calls_run_in_order"),
        ("Handles anywhere", "must", "ActorHandle", "the same",
         "runtime/test_actors.py::handles_go_into_tasks_actors_containers_and_closures"),
        ("Parameter server, simulators, serving", "must", "", "the same", "compat/test_programs.py::program"),
        ("Inheritance, class and static methods", "must", "", "the same",
         "runtime/test_actors.py::inheritance_class_and_static_methods"),
        ("Options of methods", "must", "method", "the same", "runtime/test_actors.py::method_options"),
        ("Ends with its last handle, kill, exit_actor", "must", "kill, actor.exit_actor", "kill, exit_actor",
         "runtime/test_actors.py::the_actor_ends_with_its_last_handle_after_the_calls_made"),
        ("A constructor that raises", "must", "ActorDiedError", "the same",
         "runtime/test_actors.py::a_constructor_that_raises"),
        ("Names, get_if_exists", "must", "get_actor, get_if_exists", "the same",
         "runtime/test_actors.py::get_if_exists"),
        ("Detached actors outlive their driver; namespaces", "should", 'lifetime="detached"', "the same",
         "runtime/test_detached.py::the_next_run_finds_it"),
        ("Async actors", "must", "async def", "the same",
         "runtime/test_actors.py::async_actors_run_calls_together_in_one_thread"),
        ("asyncio over refs", "must", "await, gather, wait", "the same; as_completed",
         "runtime/test_async.py::asyncio_wait_takes_futures_and_says_how"),
        ("Threaded actors", "should", "max_concurrency", "the same",
         "runtime/test_actors.py::threaded_actors_run_calls_together"),
        ("Concurrency groups", "should", "concurrency_groups", "the same",
         "runtime/test_actor_options.py::a_group_that_is_full_does_not_hold_up_others"),
        ("Restarts and repeated calls", "must", "max_restarts, max_task_retries", "the same",
         "runtime/test_actors.py::calls_are_repeated_where_asked"),
        ("A limit of calls", "could", "max_pending_calls", "the same",
         "runtime/test_actor_options.py::pending_calls_have_a_limit"),
        ("Holds its GPUs", "should", "num_gpus", "the same",
         "runtime/test_actor_options.py::gpus_are_distinct_and_those_of_the_preset_mask"),
        ("Streams", "must", "num_returns=\"streaming\"", "the same",
         "runtime/test_generators.py::items_come_while_the_task_still_runs"),
        ("Back-pressure", "must", "_generator_backpressure_num_objects", "generator_backpressure_num_objects",
         "runtime/test_generators.py::back_pressure_keeps_the_task_two_ahead"),
        ("Its own words in logs and tracebacks", "should", "__repr__", "the same",
         "runtime/test_actor_options.py::an_actor_with_a_repr_is_called_by_it"),
        ("Tab completion", "must", "dir(handle)", "the same", "runtime/test_actors.py::dir_and_repr_and_documentation"),
    ],
    "Scheduling": [
        ("Amounts, fractions, custom resources", "must", "num_cpus, resources", "the same",
         "runtime/test_tasks.py::custom_resources_bound_what_runs_together"),
        ("A CPU is given back while blocked", "must", "", "the same",
         "runtime/test_tasks.py::nested_wait_gives_the_cpu_back"),
        ("Hundreds of idle actors", "must", "", "the same", "runtime/test_actors.py::many_idle_actors_on_two_cpus"),
        ("What there is, and what is free", "must", "cluster_resources, available_resources, nodes", "the same",
         "runtime/test_tasks.py::resources_are_accounted_for"),
        ("What never fits is told", "must", "", "InfeasibleResourcesWarning",
         "runtime/test_bad_input.py::infeasible_resources_are_told_at_once_and_once"),
        ("Distinct GPU ids", "should", "get_gpu_ids", "the same",
         "runtime/test_actor_options.py::gpus_are_distinct_and_those_of_the_preset_mask"),
        ("OMP_NUM_THREADS", "should", "", "the same",
         "runtime/test_actor_options.py::openmp_gets_as_many_threads_as_the_task_has_cpus"),
        ("Placement groups", "could", "util.placement_group", "the same",
         "runtime/test_placement.py::a_group_reserves_all_of_its_bundles_and_gives_them_back"),
        ("Node affinity", "could", "NodeAffinitySchedulingStrategy", "the same",
         "runtime/test_placement.py::node_affinity"),
        ("A pool that grows and is bounded", "must", "", "the same",
         "scheduler/test_node.py::actors_get_workers_beyond_the_cpus"),
        ("Short tasks are not stuck behind a flood", "could", "", "the same",
         "runtime/test_tasks.py::a_short_task_is_not_stuck_behind_a_flood_of_others"),
    ],
    "Faults": [
        ("The error is the user's class too", "must", "RayTaskError", "TaskError",
         "runtime/test_errors.py::the_error_is_both_classes_and_shows_the_remote_line"),
        ("One tree of exceptions", "must", "ray.exceptions", "cellmesh.exceptions",
         "compat/test_names.py::the_tree_of_exceptions"),
        ("Exceptions that cannot be pickled, groups, SystemExit", "must", "", "the same",
         "runtime/test_unfetched.py::exception_groups_work_with_except_star"),
        ("Crashes are retried", "must", "max_retries, retry_exceptions", "the same",
         "runtime/test_tasks.py::a_killed_worker_is_replaced_and_the_task_run_again"),
        ("Actors restart", "must", "max_restarts", "the same",
         "runtime/test_actors.py::a_restart_runs_the_constructor_again"),
        ("Lost results are computed again", "should", "lineage", "",
         "- on one machine a result is lost only with the session: the store is one segment, which outlives workers"),
        ("An owner that dies", "should", "OwnerDiedError", "",
         "- objects have no owner: they live as long as somebody holds them"),
        ("Memory that runs out", "must", "OutOfMemoryError", "the same",
         "runtime/test_memory.py::a_task_that_takes_too_much_fails_and_says_who_used_what"),
        ("Errors nobody fetches are shown", "should", "", "the same",
         "runtime/test_unfetched.py::an_error_nobody_fetches_is_shown_once"),
        ("A list of errors", "should", "error_info", "the same", "runtime/test_unfetched.py::error_info_lists_them"),
        ("Workers killed at random", "should", "chaos tests", "",
         "- tests/objstore/test_kill_stress.py does it below Python's API"),
    ],
    "Looking": [
        ("Prints under their cell", "must", "log_to_driver", "the same",
         "kernel/test_output_kernel.py::a_print_of_a_task_is_live_and_says_whose_it_is"),
        ("A flood is bounded, repeats are folded", "must", "", "the same",
         "kernel/test_output_kernel.py::a_flood_does_not_reach_the_front_end"),
        ("Progress bars of tasks", "should", "experimental.tqdm_ray", "tqdm",
         "runtime/test_tqdm.py::a_bar_for_each_task_updated_in_place"),
        ("One bar for many tasks", "should", "-", "progress",
         "runtime/test_progress.py::values_come_in_order_and_the_bar_goes_on"),
        ("Listings and summaries", "should", "util.state", "state", "runtime/test_looking.py::listings_and_filters"),
        ("A timeline for Perfetto", "must", "timeline", "the same",
         "runtime/test_errors.py::the_timeline_is_a_chrome_trace"),
        ("Commands", "should", "ray status, memory, stack …", "cellmesh status, memory, stack …",
         "runtime/test_looking.py::every_command_of_a_session_that_works"),
        ("A view in the notebook, behind any prefix", "should", "dashboard", "panel and widget",
         "kernel/test_panel_kernel.py::a_panel_that_opens_later_sees_the_same"),
        ("Rich displays", "should", "", "cards, tables", "kernel/test_panel_kernel.py::the_table_of_futures"),
        ("Metrics of one's own", "could", "util.metrics", "the same",
         "runtime/test_metrics.py::counts_of_tasks_actors_and_the_driver_add_up"),
    ],
    "Adapters": [
        ("ActorPool", "must", "util.ActorPool", "the same", "runtime/test_actors.py::the_pool_hands_out_work"),
        ("Queue", "must", "util.queue.Queue", "util.Queue", "runtime/test_actors.py::the_queue"),
        ("multiprocessing.Pool", "should", "util.multiprocessing.Pool", "the same",
         "runtime/test_pool.py::every_way_to_call"),
        ("joblib, scikit-learn", "should", "util.joblib.register_ray", "util.register_joblib",
         "runtime/test_libraries.py::grid_search"),
        ("Dask", "could", "util.dask.ray_dask_get", "util.dask_get", "runtime/test_libraries.py::dask_delayed"),
        ("concurrent.futures", "could", "", "util.Executor", "runtime/test_executor.py::submit_and_map"),
        ("Parallel iterators", "could", "util.iter", "",
         "- generators, as_completed and ActorPool.map_unordered do it"),
        ("Collectives", "could", "util.collective", "", "- torch.distributed among actors does it"),
    ],
}


def page() -> str:
    """The text of the page."""
    parts = [HEAD.strip()]
    for section, rows in FEATURES.items():
        table = ["| feature | | Ray | cellmesh | test |", "| --- | --- | --- | --- | --- |",
                 *(f"| {feature} | {priority} | {_names(theirs)} | {ours} | {_shown(test)} |"
                   for feature, priority, theirs, ours, test in rows)]
        parts += [f"## {section}", "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def _names(text: str) -> str:
    return text if " " in text.replace(", ", "") or not text else ", ".join(f"`{name}`" for name in text.split(", "))


def _shown(test: str) -> str:
    return test[2:] if test.startswith("- ") else f"`{test}`"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
