-- Sets how an account shows its record, and gives it a new slug for ever.
-- KEYS[1] account   ARGV[1] account id
-- KEYS[2] slugs     ARGV[2] slug
--                   ARGV[3] how many slugs an account may ever have
--                   ARGV[4...] fields and values of the record
-- Returns 1 if it is set; 0 if the slug is, or was, another account's, or was this
-- account's before its present one; -1 if there is no such account; -2 if it has had
-- that many slugs.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
if redis.call('HGET', KEYS[1], 'slug') ~= ARGV[2] then
  if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then
    return 0
  end
  if tonumber(redis.call('HGET', KEYS[1], 'slugs') or '0') >= tonumber(ARGV[3]) then
    return -2
  end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'slugs', 1)
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
return 1
