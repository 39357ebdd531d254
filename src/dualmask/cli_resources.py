# SPDX-License-Identifier: Apache-2.0
"""`dualmask resources`: what there is, fetch it, check it."""

from typing import Annotated

import typer

app = typer.Typer(help="Models and data from elsewhere: list, fetch, verify.", no_args_is_help=True)


@app.command("list")
def list_resources() -> None:
    """Show every resource with its source, licence, size, hash and state."""
    from dualmask.fitted_tables import FittedTable, unbroken_console
    from dualmask.resources import RESOURCES, cache_folder, status

    rows = []
    for name, resource in RESOURCES.items():
        sha256 = f"sha256 {resource.sha256[:16]}..." if resource.sha256 else "hashes kept and checked by the hub client"
        about = f"{resource.purpose}\n{resource.source}, {resource.licence}\n{sha256}"
        rows.append([name, resource.kind, f"{resource.size / 1e6:.1f} MB", status(name).state, about])
    unbroken_console().print(FittedTable(
        head=("name", "kind", "size", "state", "purpose, source, licence, sha256"), rows=rows, spaced=True,
        caption=f"cache: {cache_folder()}"))


@app.command("fetch")
def fetch_resource(name: Annotated[str, typer.Argument(help="A name of the list, or a model's hub id.")]) -> None:
    """Bring one resource to this machine and print where it is."""
    from dualmask.resources import RESOURCES, fetch, hub_snapshot

    typer.echo(fetch(name) if name in RESOURCES or "/" not in name else hub_snapshot(name))


@app.command("verify")
def verify_resources(
    name: Annotated[str | None, typer.Argument(help="One name of the list; without it, all that were fetched.")] = None,
) -> None:
    """Hash fetched files again; exit code 1 if something is corrupt, or if the one named is not there."""
    from dualmask.resources import RESOURCES, verify, way_to

    wrong = []
    for each in [name] if name else RESOURCES:
        found = verify(each)
        typer.echo(f"{each}: {found.state}" + (f" ({found.detail})" if found.detail else ""))
        if found.state == "corrupt" or (name and found.state in ("not fetched", "not made")):
            wrong.append(each)
    if wrong:
        typer.echo(f"To repair: {' && '.join(map(way_to, wrong))}", err=True)
        raise typer.Exit(1)
