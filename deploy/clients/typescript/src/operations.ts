import type { paths } from "./api.js";

// What the description of the API says about an operation, as types.

export type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

/** The operation of a method and a path. */
export type Operation<M extends Method, P extends keyof paths> = paths[P] extends { [K in Lowercase<M>]: infer O } ? O : never;

/** The paths that have a method. */
export type PathOf<M extends Method> = { [P in keyof paths]: [Operation<M, P>] extends [never] ? never : P }[keyof paths];

/** What a request must have and may have: path, query and body. */
type Input<O> = Parameters<O> & Body<O>;
type Parameters<O> = O extends { parameters: infer P extends { path?: unknown; query?: unknown } } ? Pick<P, "path" | "query"> : unknown;
type Body<O> = O extends { requestBody: { content: infer C } } ? { body: C[keyof C] }
  : O extends { requestBody?: infer R } ? (NonNullable<R> extends { content: infer C } ? { body?: C[keyof C] } : unknown)
  : unknown;

/** The last argument of a request, which may be left out where nothing in it is required. */
export type Arguments<O, Options> = Record<never, never> extends Input<O> ? [options?: Input<O> & Options] : [options: Input<O> & Options];

/** What a success answers: an object, text where that is no JSON, or undefined without a body. */
export type Answer<O> = O extends { responses: infer R } ? { [S in keyof R & Success]: Content<R[S]> }[keyof R & Success] : never;
type Success = 200 | 201 | 202 | 204;
type Content<R> = R extends { content: infer C } ? (C extends { "application/json": infer J } ? J : string) : undefined;
