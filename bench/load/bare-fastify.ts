import { type AddressInfo } from 'node:net'
import fastify from 'fastify'

// The reference of `single`: parses the same JSON, answers the same body, keeps nothing.
const app = fastify()
app.post('/capture/', () => ({ status: 1 }))
await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.((app.server.address() as AddressInfo).port)
