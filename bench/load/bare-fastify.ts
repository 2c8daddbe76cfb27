import { type AddressInfo } from 'node:net'
import fastify from 'fastify'

// The reference of `single` and `decide`: parses the same JSON, answers an equal body, does nothing else.
process.once('message', (answer: object) => {
  const app = fastify()
  app.post('*', () => answer)
  void app.listen({ port: 0, host: '127.0.0.1' }).then(() => {
    process.send?.((app.server.address() as AddressInfo).port)
  })
})
