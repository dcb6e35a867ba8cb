"""A front for a zone: accepts connections, with TLS if it has a certificate, for its processes in turn.

A zone serves plain HTTP and expects a proxy before it where https or several processes are needed. This one
limits nothing, so every defence that holds is the zone's own.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from contextlib import suppress

import click

PIECE = 65_536


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


async def _serve(port: int, backends: tuple[int, ...], certificate: str) -> None:
    turns = itertools.cycle(backends)

    async def carry(near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_out = None
        try:
            far_in, far_out = await asyncio.open_connection("127.0.0.1", next(turns))
            back = asyncio.create_task(_pump(far_in, near_out))
            await _pump(near_in, far_out)
            await back
        except OSError:
            pass
        finally:
            for writer in (near_out, far_out):
                if writer is not None:
                    writer.close()

    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = await asyncio.start_server(carry, "127.0.0.1", port, ssl=context, backlog=512)
    async with server:
        await server.serve_forever()


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--backend", "backends", type=int, required=True, multiple=True)
@click.option("--certificate", default="")
def main(port: int, backends: tuple[int, ...], certificate: str) -> None:
    """Pass connections on to the backends in turn until the process is ended."""
    asyncio.run(_serve(port, backends, certificate))


if __name__ == "__main__":
    main()
