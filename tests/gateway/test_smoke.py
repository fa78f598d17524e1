import aiohttp
from tests.gateway.conftest import AUTH, WID, Rig


async def test_smoke(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url) as client:
        async with client.get("/healthz") as r:
            assert r.status == 200, await r.text()
        async with client.post(f"/api/v1/workspaces/{WID}/execs", json={"command": "true"}, headers=AUTH) as r:
            print(r.status, await r.text(), r.headers)
        async with client.get("/anything?x=1", headers={"X-Forwarded-For": "1.2.3.4"}) as r:
            print(r.status, await r.text(), r.headers)
        async with client.get(f"/api/v1/workspaces/{WID}/execs") as r:
            print(r.status, await r.text(), r.headers)
